#include <algorithm>
#include <cmath>
#include <iterator>

#include "debug/causes/detectors.h"
#include "debug/causes/phrases.h"

namespace lanescope {
namespace {

/// The scales of one input and the head that the scene's block reads.
struct Scales {
  std::string name;  ///< "k_scale"
  const Tensor* tensor;
  std::int64_t own;  ///< the index of the head's scale
  bool belongs;      ///< it is part of the values of the site

  double value() const { return tensor->at(own); }
  /// "k_scale[batch 0][head 1]"
  std::string text(std::int64_t index) const {
    const std::int64_t heads = tensor->dims[1];
    return name + "[batch " + std::to_string(index / heads) + "][head " +
           std::to_string(index % heads) + "]";
  }
};

std::vector<Scales> scales_of(const Scene& scene) {
  const Inputs& inputs = scene.judge().inputs();
  const Problem& p = scene.info().problem;
  const Divergence& at = scene.first();
  const std::int64_t q = at.batch * p.heads + at.head;
  const std::int64_t kv = at.batch * p.heads_kv + p.kv_head(at.head);
  // Who multiplies in the softmax shows it in the maximum first.
  const bool scores = scene.site() == SiteId::s || scene.site() == SiteId::m;
  const bool output = scene.site() == SiteId::o_final;
  return {{"q_scale", &inputs.q_scale, q, scores},
          {"k_scale", &inputs.k_scale, kv, scores},
          {"v_scale", &inputs.v_scale, kv, output}};
}

/// A use of the scales other than the right one, and the factor by which it is off.
struct Misuse {
  Cause cause;
  double ratio;
  std::string text;
};

/// Both scales of scores, those of another head of Q and of the one of K that belongs to it.
void add_pairs(const Problem& p, const Scales& q, const Scales& k, std::vector<Misuse>& list) {
  for (std::int64_t i = 0; q.belongs && i < q.tensor->size(); ++i) {
    const std::int64_t kv = i / p.heads * p.heads_kv + p.kv_head(i % p.heads);
    if (i == q.own || kv == k.own) continue;
    list.push_back({Cause::scale_of_other_head,
                    q.tensor->at(i) * k.tensor->at(kv) / (q.value() * k.value()),
                    "multiplied by " + q.text(i) + " and " + k.text(kv) + " instead of " +
                        q.text(q.own) + " and " + k.text(k.own)});
  }
}

std::vector<Misuse> misuses(const Problem& p, const std::vector<Scales>& all) {
  std::vector<Misuse> list;
  double right = 1;
  for (const Scales& scales : all) {
    if (scales.belongs) right *= scales.value();
  }
  for (const Scales& own : all) {
    const std::string name = own.text(own.own);
    if (!own.belongs) {
      list.push_back({Cause::scale_repeated, own.value(),
                      "multiplied by " + name + ", which does not belong here"});
      continue;
    }
    list.push_back({Cause::scale_missing, 1 / own.value(), "not multiplied by " + name});
    list.push_back({Cause::scale_repeated, own.value(), "multiplied by " + name + " twice"});
    list.push_back({Cause::scale_repeated, 1 / (own.value() * own.value()),
                    "divided by " + name + " instead of multiplied"});
    for (const Scales& other : all) {
      for (std::int64_t i = 0; i < other.tensor->size(); ++i) {
        if (&other == &own && i == own.own) continue;
        list.push_back({Cause::scale_of_other_head, other.tensor->at(i) / own.value(),
                        "multiplied by " + other.text(i) + " instead of " + name});
      }
    }
  }
  list.push_back({Cause::scale_missing, 1 / right, "not multiplied by any scale"});
  add_pairs(p, all[0], all[1], list);
  return list;
}

/// got / want of the wrong values, by least squares; NaN where they have no common ratio at all.
double common_ratio(const Scene& scene) {
  double product = 0, square = 0;
  for (const Element& e : scene.elements()) {
    if (!e.wrong || e.unwritten || !std::isfinite(e.got) || !std::isfinite(e.want)) continue;
    product += e.got * e.want;
    square += e.want * e.want;
  }
  return product / square;
}

}  // namespace

void find_input_scale(const Scene& scene, Findings& findings) {
  const SiteId site = scene.site();
  if (!scene.judge().inputs().scaled()) return;
  const SiteId scaled[] = {SiteId::s, SiteId::m, SiteId::o, SiteId::o_final};
  if (std::ranges::find(scaled, site) == std::end(scaled)) return;
  // Scales of several heads may be close to each other: the nearest ratio counts.
  const double ratio = common_ratio(scene);
  const Misuse* nearest = nullptr;
  const auto distance = [&](const Misuse& misuse) { return std::abs(misuse.ratio / ratio - 1); };
  const std::vector<Misuse> all = misuses(scene.info().problem, scales_of(scene));
  for (const Misuse& misuse : all) {
    if (!(distance(misuse) < 0.01)) continue;
    if (!nearest || distance(misuse) < distance(*nearest)) nearest = &misuse;
  }
  if (!nearest) return;
  std::vector<double> values = scene.by_element(scene.want());
  for (double& value : values) value *= nearest->ratio;
  const Fit fit = scene.fit(values);
  if (fit.explained < 0.5) return;
  Finding finding{nearest->cause, fit.explained, fit.consistent, true};
  finding.evidence = {std::string(name_of(site)) + " was " + nearest->text,
                      "got / want is " + value_text(ratio) + ", the quotient of the scales " +
                          value_text(nearest->ratio)};
  findings.push_back(finding);
}

}  // namespace lanescope
