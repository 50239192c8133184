#include <cmath>

#include "debug/causes/formulas.h"
#include "reference/elementary.h"

namespace lanescope {
namespace {

using Array = Scene::Array;

using reference::infinity, reference::log2_e;
using reference::product;

/// `x` with each row multiplied by its entry of `column`.
Array rescaled_by(const Array& x, const Array& column) { return x * column; }

/// The chunk of 8 columns that is read in the place of chunk c of a row, where the tile is stored
/// with one swizzle and read with another: c xor a part of the row's number.
struct Swizzles {
  const char* what;
  reference::Index (*moved_by)(reference::Index row);
};
constexpr Swizzles swizzles[] = {
    {"by row % 8 and read by row % 4, or the other way round",
     [](reference::Index r) { return r & 4; }},
    {"by row % 8 and read by row % 2, or the other way round",
     [](reference::Index r) { return r & 6; }},
    {"by row % 8 and read in order, or the other way round",
     [](reference::Index r) { return r & 7; }},
    {"by row % 4 and read in order, or the other way round",
     [](reference::Index r) { return r & 3; }},
    {"by row % 8 and read by row / 2 % 8, or the other way round",
     [](reference::Index r) { return (r ^ r / 2) & 7; }},
    {"by row % 8 and read by row / 2 % 4, or the other way round",
     [](reference::Index r) { return (r & 7) ^ (r / 2 & 3); }},
};

Array read_with(const Swizzles& swizzle, const Array& x) {
  constexpr reference::Index chunk = 8;
  Array read = x;
  for (reference::Index row = 0; row < x.rows(); ++row) {
    for (reference::Index col = 0; col < x.cols(); ++col) {
      const reference::Index from = (col / chunk ^ swizzle.moved_by(row)) * chunk + col % chunk;
      if (from < x.cols()) read(row, col) = x(row, from);
    }
  }
  return read;
}

/// `x` with column c % width in the place of column c, as an index has it that wraps too early.
Array wrapped(const Array& x, reference::Index width) {
  Array read = x;
  for (reference::Index row = 0; row < x.rows(); ++row) {
    for (reference::Index col = width; col < x.cols(); ++col) read(row, col) = x(row, col % width);
  }
  return read;
}

/// What a product takes in the place of `x` where the two middle ones of the four matrices of 8 x 8
/// in each 16 x 16 change places: those of the left operand and of the right one stand in another
/// order (PTX ISA, ldmatrix and mma.m16n8k16). Rows that do not exist are zeros.
Array with_matrices_exchanged(const Array& x) {
  Array taken = Array::Zero(x.rows(), x.cols());
  for (reference::Index row = 0; row < x.rows(); ++row) {
    for (reference::Index col = 0; col < x.cols(); ++col) {
      const reference::Index from_row = row / 16 * 16 + col % 16 / 8 * 8 + row % 8;
      const reference::Index from_col = col / 16 * 16 + row % 16 / 8 * 8 + col % 8;
      if (from_row < x.rows() && from_col < x.cols()) taken(row, col) = x(from_row, from_col);
    }
  }
  return taken;
}

}  // namespace

void try_formulas_of_scores(const Scene& scene, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto q = scene.held(SiteId::q_smem, 0), k = scene.held(SiteId::k_smem, tile);
  const double factor = scene.reference().score_factor().value;
  if (!q) return;
  const reference::Visible seen = scene.reference().visible(tile);
  const auto masked = [&](Array s) {
    for (reference::Index row = 0; row < s.rows(); ++row) {
      s.fill_row(row, -infinity, seen[static_cast<std::size_t>(row)]);
    }
    return s;
  };
  const auto scores_of = [&](const Array& queries, const Array& keys) {
    return masked(factor * product_transposed(queries, keys));
  };
  const auto scores = [&](const Array& keys) { return scores_of(*q, keys); };
  for (const std::int64_t visits : {1, 2, -1}) {
    const std::int64_t other = scene.earlier(tile, visits);
    if (other < 0 || other >= scene.info().kv_tiles()) continue;
    const std::string name = "tile " + std::to_string(other);
    fits(Cause::stale_operand,
         "s is Q times the keys of " + name + " instead of this tile's, or s was not computed anew",
         scores(scene.reference().k_tile(other)));
  }
  if (const auto v = scene.held(SiteId::v_smem, tile)) {
    fits(Cause::stale_operand, "s is Q times V instead of K", scores(*v));
    if (k && v->rows() >= scene.rows()) {
      fits(Cause::stale_operand, "s is V times K: V is read where Q should be",
           scores_of(v->top_rows(scene.rows()), *k));
    }
  }
  for (const SiteId id : {SiteId::s, SiteId::p}) {
    const auto before = scene.held(id, scene.earlier(tile));
    if (!before) continue;
    const std::string name = name_of(id);
    // The scores of the tile before are those of its keys, which was tried above.
    if (id == SiteId::p) fits(Cause::stale_value, "s equals p of the tile before", *before);
    const Array finite = before->map([](double x) { return std::isfinite(x) ? x : 0; });
    fits(Cause::accumulator_not_cleared,
         "s = Q.K + " + name + " of the tile before: the accumulator was not cleared",
         scene.want() + factor * finite);
  }
  if (k) {
    const Array dot = scores(*k) / factor;
    const double scale = reference::softmax_scale(scene.info().problem);
    const std::int64_t d = scene.info().problem.d;
    for (std::int64_t end = 8; end < d; end += 8) {
      fits(Cause::contribution_missing,
           "s lacks the columns " + std::to_string(end) + " to " + std::to_string(d - 1) + " of d",
           scores_of(q->left_cols(end), k->left_cols(end)));
    }
    for (const std::int64_t width : {8, 16, 32, 64, 128}) {
      if (width >= d) break;
      const std::string first = "the first " + std::to_string(width) + " columns of d";
      fits(Cause::contribution_repeated,
           first + " count again in s in the place of the others: of Q and of K",
           scores_of(wrapped(*q, width), wrapped(*k, width)));
      fits(Cause::wrong_source, "K is read with " + first + " in the place of the others",
           scores(wrapped(*k, width)));
      fits(Cause::wrong_source, "Q is read with " + first + " in the place of the others",
           scores_of(wrapped(*q, width), *k));
    }
    for (const std::int64_t step : {8, 16, 32, 64}) {
      if (2 * step > d) continue;
      Array s = Array::Zero(q->rows(), k->rows()), before = s;
      for (std::int64_t end = step; end < d + step; end += step) {
        const std::int64_t known = std::min(end, d);
        const Array up_to = product_transposed(q->left_cols(known), k->left_cols(known));
        s = factor * (s + up_to - before);
        before = up_to;
      }
      fits(Cause::scale_repeated,
           "the factor of s is applied after every " + std::to_string(step) +
               " columns of d, to what was summed up before them as well",
           masked(s));
    }
    fits(Cause::wrong_scale, "s = Q.K without any factor", dot);
    fits(Cause::wrong_scale, "s = Q.K / sqrt(d), the factor log2(e) is missing",
         factor / log2_e * dot);
    fits(Cause::wrong_scale, "s = Q.K * log2(e), the factor 1/sqrt(d) is missing",
         factor / scale * dot);
    fits(Cause::wrong_scale, "s has the factor that the softmax multiplies with",
         factor * scene.reference().softmax_factor().value * dot);
    const std::string exchanged =
        " is read with the two middle matrices of 8 x 8 of every 16 x 16 exchanged (ldmatrix)";
    for (const bool of_q : {true, false}) {
      fits(Cause::permuted, (of_q ? "Q" : "K") + exchanged,
           scores_of(of_q ? with_matrices_exchanged(*q) : *q,
                     of_q ? *k : with_matrices_exchanged(*k)));
    }
    for (const Swizzles& swizzle : swizzles) {
      const Array read_q = read_with(swizzle, *q), read_k = read_with(swizzle, *k);
      const auto add = [&](const char* who, const Array& left, const Array& right) {
        fits(Cause::permuted,
             std::string("the chunks of 8 columns of ") + who + " are swizzled " + swizzle.what,
             scores_of(left, right));
      };
      add("Q and K", read_q, read_k);
      add("Q", read_q, *k);
      add("K", *q, read_k);
    }
  }
}

void try_left_over(const Scene& scene, const Formulas& fits) {
  const std::string site = name_of(scene.site());
  const Range blocks = scene.info().blocks;
  for (std::int64_t other = blocks.begin; other < blocks.end; ++other) {
    if (other == scene.block()) continue;
    const auto end = scene.end_of(other, scene.site()), l = scene.end_of(other, SiteId::l);
    if (!end || end->rows() != scene.rows()) continue;
    const std::string text = site + " starts with what the rows of block " + std::to_string(other) +
                             " left in it: it is not cleared before the next rows";
    fits(Cause::accumulator_not_cleared, text, scene.want() + *end);
    if (scene.site() != SiteId::o || !l || l->rows() != scene.rows()) continue;
    fits(Cause::accumulator_not_cleared, text + ", divided by their l",
         scene.want() + rescaled_by(*end, 1 / *l));
  }
}

void try_formulas_of_output(const Scene& scene, const Formulas& fits) {
  const std::int64_t tile = scene.tile();
  const auto p = scene.weights(tile), alpha = scene.held(SiteId::alpha, tile);
  const auto o_prev = scene.before(SiteId::o, tile), v = scene.held(SiteId::v_smem, tile);
  if (!p || !alpha || !o_prev) return;
  if (scene.earlier(tile) < 0) try_left_over(scene, fits);
  const Array own_v = v ? *v : scene.reference().v_tile(tile);
  const Array pv = product(*p, own_v), rescaled = rescaled_by(*o_prev, *alpha);
  fits(Cause::never_updated, "o equals o of before this tile", *o_prev);
  fits(Cause::accumulator_lost, "o = P.V: what earlier tiles gave is gone", pv);
  fits(Cause::not_rescaled, "o = o_prev + P.V, not multiplied by alpha", *o_prev + pv);
  fits(Cause::rescaled_twice, "o = alpha^2 o_prev + P.V", rescaled_by(rescaled, *alpha) + pv);
  fits(Cause::rescaled_twice, "o = alpha (o_prev + P.V): alpha belongs to o_prev alone",
       rescaled_by(*o_prev + pv, *alpha));
  fits(Cause::wrong_formula, "o = o_prev + alpha P.V: alpha on the wrong term",
       *o_prev + rescaled_by(pv, *alpha));
  fits(Cause::wrong_formula, "o is divided by alpha instead of multiplied",
       rescaled_by(*o_prev, 1 / *alpha) + pv);
  fits(Cause::contribution_missing, "o = alpha o_prev: P.V is missing", rescaled);
  fits(Cause::contribution_repeated, "o = alpha o_prev + 2 P.V", rescaled + 2 * pv);
  for (const reference::Index step : {1, 8, 16, 32}) {
    if (2 * step > own_v.rows() || own_v.rows() % step != 0) continue;
    Array o = *o_prev, before = 0 * o;
    for (reference::Index end = step; end <= own_v.rows(); end += step) {
      const Array up_to = product(p->left_cols(end), own_v.top_rows(end));
      o = rescaled_by(o, *alpha) + up_to - before;
      before = up_to;
    }
    fits(Cause::rescaled_twice,
         "o is multiplied by alpha before every " +
             (step == 1 ? "key" : std::to_string(step) + " keys") + " of the tile",
         o);
  }
  for (const reference::Index width : {8, 16, 32, 64}) {
    if (o_prev->rows() % width != 0) break;
    Array o = pv;
    for (reference::Index row = 0; row < o.rows(); ++row) {
      for (reference::Index col = 0; col < o.cols(); ++col) {
        o(row, col) += (*alpha)(row / width * width + col % width) * (*o_prev)(row, col);
      }
    }
    fits(Cause::operand_of_other_row,
         "o was multiplied by alpha of the row that the column says, of every " +
             std::to_string(width),
         o);
  }
  if (const auto old = scene.held(SiteId::alpha, scene.earlier(tile))) {
    fits(Cause::stale_operand, "o was multiplied by alpha of the tile before",
         rescaled_by(*o_prev, *old) + pv);
    Array last = *alpha;  // that was not 1
    for (std::int64_t visits = 1; scene.earlier(tile, visits) >= 0; ++visits) {
      const auto older = scene.held(SiteId::alpha, scene.earlier(tile, visits));
      if (!older) break;
      for (reference::Index row = 0; row < last.rows(); ++row) {
        if (last(row) == 1) last(row) = (*older)(row);
      }
    }
    fits(Cause::stale_operand,
         "where alpha is 1, o was multiplied by the last alpha of the row that was not",
         rescaled_by(*o_prev, last) + pv);
  }
  if (const auto old = scene.weights(scene.earlier(tile))) {
    fits(Cause::stale_operand, "P of the tile before was multiplied with V",
         rescaled + product(*old, own_v));
  }
  for (const std::int64_t visits : {1, 2, -1}) {
    const std::int64_t other = scene.earlier(tile, visits);
    if (other < 0 || other >= scene.info().kv_tiles()) continue;
    fits(Cause::stale_operand, "P was multiplied with V of tile " + std::to_string(other),
         rescaled + product(*p, scene.reference().v_tile(other)));
  }
  if (const auto k = scene.held(SiteId::k_smem, tile)) {
    fits(Cause::stale_operand, "P was multiplied with K instead of V", rescaled + product(*p, *k));
  }
  if (const SiteSlots* q = scene.judge().slots(SiteId::q_smem);
      q && q->holds(scene.block(), 0) && q->site().rows >= p->cols()) {
    fits(Cause::stale_operand, "P was multiplied with Q instead of V",
         rescaled + product(*p, q->elements(scene.block(), 0, p->cols())));
  }
  if (const auto l = scene.held(SiteId::l, tile)) {
    fits(Cause::normalised_twice, "o is divided by l already", rescaled_by(rescaled + pv, 1 / *l));
    fits(Cause::normalised_twice, "P.V is divided by l already",
         rescaled + rescaled_by(pv, 1 / *l));
  }
}

}  // namespace lanescope
