#include <string>

#include "debug/causes/flaw_families.h"

namespace lanescope {
namespace {

/// The scale of an input that a plan has.
InputScale& scale_in(RowPlan& plan, InputTensor of) {
  return of == InputTensor::q ? plan.q_scale : of == InputTensor::k ? plan.k_scale : plan.v_scale;
}

/// Those that are left out, or applied twice.
void add_powers(InputTensor of, const std::string& name, Stage stage, Flaws& flaws) {
  const auto add = [&](Cause cause, const std::string& how, double power) {
    flaws.push_back({cause, stage, "in which " + name + how, 0,
                     [=](RowPlan& plan) { scale_in(plan, of).power = power; }});
  };
  add(Cause::scale_missing, " is left out", 0);
  add(Cause::scale_repeated, " is applied twice", 2);
  add(Cause::scale_repeated, " is divided by", -1);
}

/// Those of a head that the row's number is taken for.
void add_heads(InputTensor of, const std::string& name, Stage stage, const Problem& p,
               Flaws& flaws) {
  const auto add = [&](const std::string& head, const auto& index) {
    flaws.push_back({Cause::scale_of_other_head, stage, "in which " + name + " is that of " + head,
                     0, [=](RowPlan& plan) { scale_in(plan, of).head = index(plan); }});
  };
  const std::int64_t own = of == InputTensor::q ? p.heads : p.heads_kv,
                     others = of == InputTensor::q ? p.heads_kv : p.heads;
  const auto head_of = [=](const RowPlan& plan) {
    return of == InputTensor::q ? plan.head : p.kv_head(plan.head);
  };
  if (p.batch * own == 1) return;
  add("the first head", [](const RowPlan&) { return 0; });
  add("the head before", [=](const RowPlan& plan) {
    const std::int64_t heads = p.batch * own;
    return (plan.batch * own + head_of(plan) + heads - 1) % heads;
  });
  add("the next head", [=](const RowPlan& plan) {
    return (plan.batch * own + head_of(plan) + 1) % (p.batch * own);
  });
  if (p.batch > 1) add("the same head of the first batch", head_of);
  if (p.heads == p.heads_kv) return;
  add("head h % heads_kv for head h of Q",
      [=](const RowPlan& plan) { return plan.batch * own + plan.head % p.heads_kv; });
  add("the head whose number the head of Q has",
      [=](const RowPlan& plan) { return (plan.batch * p.heads + plan.head) % (p.batch * own); });
  add("the head whose number the head of K has",
      [=](const RowPlan& plan) { return plan.batch * own + p.kv_head(plan.head); });
  if (p.batch == 1) return;
  add(std::string("the head that it would be with as many heads as ") +
          (of == InputTensor::q ? "K has" : "Q has"),
      [=](const RowPlan& plan) { return (plan.batch * others + head_of(plan)) % (p.batch * own); });
}

}  // namespace

void add_flaws_of_input_scales(const DumpInfo& info, Flaws& flaws) {
  if (info.dtype != ElementType::e4m3) return;
  struct Input {
    InputTensor of;
    const char* name;
    Stage stage;
  };
  constexpr Input inputs[] = {{InputTensor::q, "q_scale", Stage::qk},
                              {InputTensor::k, "k_scale", Stage::qk},
                              {InputTensor::v, "v_scale", Stage::epilogue}};
  for (const auto& [of, name, stage] : inputs) {
    add_powers(of, name, stage, flaws);
    add_heads(of, name, stage, info.problem, flaws);
    for (const auto& other : inputs) {
      if (other.of == of || (info.problem.heads != info.problem.heads_kv &&
                             (other.of == InputTensor::q || of == InputTensor::q))) {
        continue;
      }
      flaws.push_back(
          {Cause::scale_of_other_head, stage,
           std::string("in which ") + other.name + " stands in the place of " + name, 0,
           [of = of, takes = other.of](RowPlan& plan) { scale_in(plan, of).of = takes; }});
    }
  }
}

}  // namespace lanescope
