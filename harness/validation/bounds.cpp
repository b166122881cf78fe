#include "validation/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ladder {

double gamma(int64_t m, double u) {
  const double mu = double(m) * u;
  if (mu >= 0.5)
    throw Error("distances over " + std::to_string(m - 2) + " features with a unit roundoff of " + number(u) +
                " have no useful error bound: declare the roundoff in which they are added up as distance_roundoff, "
                "and that of operands rounded once as input_roundoff");
  return mu / (1 - mu);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

const char* name_of(Arithmetic::Form form) {
  switch (form) {
    case Arithmetic::Form::difference:
      return "difference form";
    case Arithmetic::Form::expanded:
      return "expanded form";
    case Arithmetic::Form::exact:
      return "the exact minimum";
  }
  return "?";
}

// Let D(c) be the true squared distance of x to c, V(c) what the variant computes and R(c) what the reference computes,
// u the variant's unit roundoff (distance_roundoff), v that of its inputs (input_roundoff; 0 where they are used as
// they are), g = gamma(d + 2, u), r = gamma(d + 2, 2^-53). The variant preferred its label L to the reference's b, so
// V(L) <= V(b). The inputs are x'_f = x_f (1 + e), c'_f = c_f (1 + e'), |e|, |e'| <= v: each is rounded once, to the
// nearest, and stays within the range of the type it is rounded to (a variant scales where half would under- or
// overflow). A product x'_f c'_f then differs from x_f c_f by at most p = 2 v + v^2, relative.
//
// Difference form. Each term (x' - c')^2 carries two roundings from the difference (it is squared) and one from the
// product; the sum adds at most d - 1 more to each, in any order, with or without fused multiply-add. All terms are
// >= 0, so V = |x' - c'|^2 (1 + t), |t| <= g. And x' - c' lies within v (|x| + |c|) =: w(c) of x - c, as a vector.
// Hence
//     sqrt D(L) <= (sqrt D(b) + w(b)) sqrt((1 + g) / (1 - g)) + w(L),
// without input rounding a regret of at most 2 g / (1 - g) D(b).
//
// Expanded form. |x|^2, |c|^2 and x.c carry at most d roundings on terms that sum, in magnitude, to |x|^2, |c|^2 and
// |x| |c|; the two additions that join them add two more. Norms may be taken of the inputs as they are or as they are
// rounded, so each of these terms may be larger by 1 + p: the sums' roundings come to g (1 + p) (|x| + |c|)^2 at most.
// The inputs' rounding adds at most p |c|^2 + 2 p |x| |c|; what it does to |x|^2, if anything, is the same for all c
// and does not change which V is least. The same goes where |x|^2 is left out altogether. So
//     D(L) <= D(b) + E(b) + E(L),   E(c) = p (|c|^2 + 2 |x| |c|) + g (1 + p) (|x| + |c|)^2.
//
// Centred. Distances are those of x - m and c - m, where m is the points' mean as the variant has it. Both are rounded
// to the element type: v is at least its roundoff. |x - m| <= |x| + |m|, and so for c: the caller adds |m| to all
// norms.
//
// Exact. D(L) <= D(b).
//
// The reference rounds too: R = D (1 + t), |t| <= r, so D(b) <= R(b) / (1 - r) and R(L) <= D(L) (1 + r).
//
// Underflow adds an absolute error: a term or a partial sum below the smallest normal number may become 0 on a device
// that flushes subnormals; there are at most 8 d such operations per distance. Overflow has no allowance: a label
// chosen among infinities is right only where it is right by its fp64 distance. The range is taken to be that of the
// element type, whatever the roundoff.
//
// Cosine. With a = x / |x|, b = c / |c| let q(c) = |a - b|, so that 1 - cos = q^2 / 2. A direction computed with u
// carries at most d / 2 roundings from |x|^2 (under the root), one from the root, one from the division: together no
// more than g; one more where it is kept in the element type T, and v where it is rounded as an input. Each component,
// and so the unit vector, is off by at most s = (1 + g)(1 + u_T)(1 + v) - 1. A centroid that was made unit length by
// the variant and is taken as it is lies within the same s. The reference's directions are off by r at most.
//   Difference form: by the triangle inequality q(L) <= (q(b) + 2 s) sqrt((1 + g) / (1 - g)) + 2 s.
//   Expanded form, 1 - a.b, a.b or x.c / |c|: a.b is off by at most (1 + s)^2 (1 + g) - 1 relative to |a| |b| = 1, the
//   subtraction from 1 by another g, E in all, the same for every c: q(L)^2 <= q(b)^2 + 4 E.
//   Reference: sqrt(R / (1 + r)) - 2 r <= q <= sqrt(R / (1 - r)) + 2 r.
DistanceBound::DistanceBound(const Arithmetic& arithmetic, Metric metric, int d, double element_roundoff,
                             double smallest)
    : form_(arithmetic.form),
      metric_(metric),
      v_(exact()              ? 0
         : arithmetic.centred ? std::max(arithmetic.input_roundoff, element_roundoff)
                              : arithmetic.input_roundoff),
      p_(v_ * (2 + v_)),
      g_(exact() ? 0
                 : gamma(int64_t(d) + 2,
                         arithmetic.distance_roundoff > 0 ? arithmetic.distance_roundoff : element_roundoff)),
      r_(gamma(int64_t(d) + 2, reference_roundoff)),
      s_((1 + g_) * (1 + element_roundoff) * (1 + v_) - 1),
      flushed_(exact() ? 0 : 8.0 * d * smallest),
      reference_flushed_(8.0 * d * std::numeric_limits<double>::min()) {}

bool DistanceBound::needs_norms() const {
  return metric_ == Metric::euclidean && (form_ == Arithmetic::Form::expanded || v_ > 0);
}

constexpr double evaluation = 1 + 32 * reference_roundoff;  // the roundings of the bounds' own formulas

double DistanceBound::limit(double best, double x_norm, double best_norm, double label_norm) const {
  return evaluation *
         (metric_ == Metric::cosine ? cosine_limit(best) : euclidean_limit(best, x_norm, best_norm, label_norm));
}

double DistanceBound::euclidean_limit(double best, double x_norm, double best_norm, double label_norm) const {
  double least = best / (1 - r_) + reference_flushed_;
  const double to_best = x_norm + best_norm, to_label = x_norm + label_norm;
  if (form_ == Arithmetic::Form::difference && v_ == 0) {
    least = (least * (1 + g_) + 2 * flushed_) / (1 - g_);
  } else if (form_ == Arithmetic::Form::difference) {
    const double wide = std::sqrt(least) + v_ * (1 + r_) * to_best;
    const double root = std::sqrt((wide * wide * (1 + g_) + 2 * flushed_) / (1 - g_)) + v_ * (1 + r_) * to_label;
    least = root * root;
  } else if (form_ == Arithmetic::Form::expanded) {
    const auto error = [&](double c_norm) {
      const double both = x_norm + c_norm;
      return p_ * (c_norm + 2 * x_norm) * c_norm + g_ * (1 + p_) * both * both;
    };
    least += (1 + 2 * r_) * (error(best_norm) + error(label_norm)) + 2 * flushed_;
  }
  return least * (1 + r_) + reference_flushed_;
}

double DistanceBound::cosine_limit(double best) const {
  double root = std::sqrt(best / (1 - r_) + reference_flushed_) + 2 * r_;
  if (form_ == Arithmetic::Form::difference) {
    const double wide = root + 2 * s_;
    root = std::sqrt((wide * wide * (1 + g_) + 2 * flushed_) / (1 - g_)) + 2 * s_;
  } else if (form_ == Arithmetic::Form::expanded) {
    root = std::sqrt(root * root + 4 * ((1 + s_) * (1 + s_) * (1 + g_) - 1 + g_) + 2 * flushed_);
  }
  root += 2 * r_;
  return root * root * (1 + r_) + reference_flushed_;
}

double DistanceBound::error(double distance, double x_norm, double c_norm) const {
  // |V - R| <= |V - D| + |D - R|, each from the upper side, which is the larger.
  const double both = (x_norm + c_norm) * (1 + r_);
  const double shift = metric_ == Metric::cosine ? 2 * s_ : v_ * both;    // the variant's vectors
  const double reference_shift = metric_ == Metric::cosine ? 2 * r_ : 0;  // the reference's
  const double root = std::sqrt(distance / (1 - r_) + reference_flushed_) + reference_shift;
  const double upper = root + reference_shift;
  const double of_reference = upper * upper * (1 + r_) - root * root + reference_flushed_ + r_ * distance;
  double of_variant = 0;
  if (form_ == Arithmetic::Form::difference)
    of_variant = (root + shift) * (root + shift) * (1 + g_) - root * root;
  else if (form_ == Arithmetic::Form::expanded && metric_ == Metric::cosine)
    of_variant = 2 * ((1 + s_) * (1 + s_) * (1 + g_) - 1 + g_);
  else if (form_ == Arithmetic::Form::expanded)
    of_variant = (p_ + g_ * (1 + p_)) * both * both;
  return evaluation * (of_reference + of_variant + flushed_ + 8 * reference_roundoff * root * root);
}

}  // namespace ladder
