#include "debug/causes/scene.h"

#include <cmath>
#include <limits>

#include "debug/judge/compare.h"
#include "reference/elementary.h"
#include "reference/rescale_rule.h"

namespace lanescope {
namespace {

using reference::infinity;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A formula computed in double from values that the kernel rounded: bounds of the right formula
/// are not those of the wrong one, so allow some.
constexpr double slack = 0x1p-15;

}  // namespace

Scene::Scene(const Dump& dump, const Divergence& first, Breadth breadth, const Recurrence* softmax)
    : dump_(dump),
      judge_(dump, softmax),
      first_(first),
      breadth_(breadth),
      reference_(judge_.reference_of(first.block)) {
  judge_.judge(first.block / dump.info.splits,
               [&](SiteId id, std::int64_t block, std::int64_t tile, Judgement judgement,
                   const reference::Bounded& want) {
                 if (id == first.site && block == first.block && tile == first.tile &&
                     judgement == first.judgement) {
                   want_ = want;
                 }
               });
  got_ = Array::Constant(rows(), cols(), not_a_number);
  set_tolerance();
  if (is_output(first.site)) {
    add_output();
  } else {
    add_traced();
  }
}

void Scene::add(int row, int col, const Holder& holder, double got, bool unwritten) {
  const double want = want_.value(row, col), bound = want_.error(row, col);
  const bool wrong = unwritten || !compare(got, want, bound).holds;
  elements_.push_back({row, col, holder, got, want, bound, unwritten, wrong});
  wrong_count_ += wrong;
  if (std::isnan(got_(row, col)) && !unwritten) got_(row, col) = got;
}

void Scene::add_traced() {
  const SiteSlots& slots = *judge_.slots(site());
  const std::int64_t begin = slots.first(block(), tile());
  const Array sums = slots.sums_lanes() ? slots.elements(block(), tile(), rows()) : Array();
  for (std::int64_t slot = 0; slot < slots.count(); ++slot) {
    const int row = slots.row(slot), col = slots.col(slot);
    if (row < 0 || row >= rows()) continue;
    const double got = slots.sums_lanes() ? sums(row) : slots.tensor().at(begin + slot);
    add(row, col, slots.holder(slot), got * unit_of(site()),
        is_unwritten(slots.tensor(), begin + slot));
  }
}

void Scene::add_output() {
  const Tensor& tensor = *dump_.find(name_of(site()));
  const bool one_pass = first_.stage == Stage::epilogue;
  const SiteSlots* slots =
      !one_pass ? nullptr : judge_.slots(site() == SiteId::lse ? SiteId::m : SiteId::o);
  std::vector<Holder> holders(static_cast<std::size_t>(rows() * cols()));
  for (std::int64_t slot = slots ? slots->count() - 1 : -1; slot >= 0; --slot) {
    const int row = slots->row(slot), col = slots->col(slot);
    if (row < 0 || row >= rows() || col >= cols()) continue;
    holders[static_cast<std::size_t>(row * cols() + col)] = slots->holder(slot);
  }
  const std::int64_t begin = info().first_q_row(place());
  for (int row = 0; row < rows(); ++row) {
    for (int col = 0; col < cols(); ++col) {
      const std::int64_t index = (begin + row) * cols() + col;
      add(row, col, holders[static_cast<std::size_t>(row * cols() + col)], tensor.at(index),
          is_unwritten(tensor, index));
    }
  }
}

bool Scene::wrong(reference::Index row, reference::Index col) const {
  return !compare(got_(row, col), want_.value(row, col), want_.error(row, col)).holds;
}

void Scene::set_tolerance() {
  const SiteSlots* slots = judge_.slots(site());
  const Format format = format_of(slots ? slots->site().type : dump_.find(name_of(site()))->type);
  const double rounding = std::ldexp(1.0, -format.fraction_bits - 1);
  relative_tolerance_ = slack + 2 * rounding;
  absolute_tolerance_ = std::ldexp(1.0, format.min_exponent - format.fraction_bits);
}

double Scene::tolerance(reference::Index row, reference::Index col, double value) const {
  if (site() <= SiteId::v_smem) return 0;
  const double bound = want_.error(row, col);
  return (std::isfinite(bound) ? 2 * bound : 0) + relative_tolerance_ * std::abs(value) +
         absolute_tolerance_;
}

bool Scene::fits(reference::Index row, reference::Index col, double got, double value,
                 double error) const {
  // A formula may go beyond what any kernel holds, and its bounds with it.
  if (std::abs(value) > std::numeric_limits<float>::max()) {
    return std::isinf(got) && (got > 0) == (value > 0);
  }
  return compare(got, value, tolerance(row, col, value) + error).holds;
}

std::optional<Scene::Array> Scene::held(SiteId id, std::int64_t tile) const {
  const SiteSlots* slots = judge_.slots(id);
  // Operands that a kernel keeps in registers, or does not name, are the inputs.
  if (!slots && id == SiteId::q_smem) return reference_.q_tile().top_rows(reference_.rows());
  if (!slots && id == SiteId::k_smem && tile >= 0 && tile <= last_tile()) {
    return reference_.k_tile(tile);
  }
  const std::int64_t own_tile = slots && slots->site().per_tile ? tile : 0;
  if (!slots || tile < 0 || !slots->holds(block(), own_tile)) return std::nullopt;
  if (slots->untouched(block(), own_tile)) return std::nullopt;
  const bool keys = slots->site().axes == Axes::key_d;
  return slots->elements(block(), own_tile, keys ? info().bc : reference_.rows()) * unit_of(id);
}

std::optional<Scene::Array> Scene::scores(std::int64_t tile) const {
  std::optional<Array> s = held(SiteId::s, tile);
  const reference::Factor factor = reference_.softmax_factor();
  if (!s || factor.none()) return s;
  return s->map([by = static_cast<float>(factor.value)](double x) {
    return static_cast<double>(static_cast<float>(x) * by);
  });
}

std::optional<Scene::Array> Scene::weights(std::int64_t tile) const {
  const std::optional<Array> p = held(SiteId::p, tile);
  return p ? std::optional(as_weights(*p)) : std::nullopt;
}

Scene::Array Scene::as_weights(const Array& p) const {
  const ElementType type = judge_.walk().arithmetic.p_type;
  return type == ElementType::f32 ? p : reference::round_values(p, type);
}

double Scene::raised(double m_prev, const Array& s, reference::Index row, double top) const {
  const auto score = [&](reference::Index key) { return s(row, key); };
  return reference::rises(info().rescale, m_prev, top, s.cols(), score) ? top : m_prev;
}

Scene::Array Scene::raised(const Array& m_prev, const Array& s, const Array& top) const {
  Array m = m_prev;
  for (reference::Index row = 0; row < m.rows(); ++row) {
    m(row) = raised(m_prev(row), s, row, top(row));
  }
  return m;
}

std::int64_t Scene::earlier(std::int64_t tile, std::int64_t visits) const {
  const std::int64_t other = judge_.downwards() ? tile + visits : tile - visits;
  return judge_.downwards() && other > last_tile() ? -1 : other;
}

std::optional<Scene::Array> Scene::before(SiteId id, std::int64_t tile) const {
  if (earlier(tile) >= 0) return held(id, earlier(tile));
  if (id == SiteId::o) return Array::Zero(reference_.rows(), info().head_dim);
  return Array::Constant(reference_.rows(), 1, id == SiteId::l ? 0.0 : judge_.start());
}

std::optional<Scene::Array> Scene::end_of(std::int64_t other, SiteId id) const {
  const SiteSlots* slots = judge_.slots(id);
  if (!slots || !slots->site().per_tile) return std::nullopt;
  std::optional<std::int64_t> end;
  for (std::int64_t tile = 0; tile < info().kv_tiles() && !(end && judge_.downwards()); ++tile) {
    if (slots->holds(other, tile) && !slots->untouched(other, tile)) end = tile;
  }
  if (!end) return std::nullopt;
  return slots->elements(other, *end, reference_.rows()) * unit_of(id);
}

std::optional<Scene::Array> Scene::left_lse() const {
  const Tensor* const lse = owes_lse(dump_) ? dump_.find("lse") : nullptr;
  if (!lse) return std::nullopt;
  Array left = Array::Zero(rows(), 1);
  for (reference::Index row = 0; row < rows(); ++row) {
    left(row) = lse->at(info().first_q_row(place()) + row);
  }
  return left;
}

Fit Scene::fit(const std::vector<double>& values, const std::vector<double>& error) const {
  FitCount count;
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const Element& e = elements_[i];
    const auto is_held = [&](double value) {
      return !e.unwritten && !std::isnan(value) &&
             fits(e.row, e.col, e.got, value, error.empty() ? 0 : error[i]);
    };
    // A value that nearly is what it should be tells one formula from another no better.
    count.add(e.wrong && !is_held(e.want), is_held(values[i]));
  }
  return count.fit();
}

std::vector<double> Scene::by_element(const Array& values) const {
  std::vector<double> list;
  list.reserve(elements_.size());
  for (const Element& e : elements_) {
    list.push_back(values(e.row, values.cols() == 1 ? 0 : e.col));
  }
  return list;
}

}  // namespace lanescope
