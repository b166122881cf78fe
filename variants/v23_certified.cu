// v23: one product of halves instead of v22's three, and labels that are those of the exact minimum all the same. What
// a product of halves can be off by is known, pair by pair: |y - yh| |z| + |yh| |z - zh| and the tensor core's cuts
// (parts/certificate.cuh; proofs in docs/certificate.md). So each product gives two bounds of a centroid's score. Where
// only one centroid's upper bound reaches the best lower bound, the label is proven. The other rows, one in a hundred,
// go to a list; a second kernel compares their last two candidates to 100 bits, or, where there are three or more, all
// centroids in double. Points are seen from their middle, where coordinates, and with them the bounds, are smallest.
#include "parts/assign_certified.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Rows<T> rows;
  Sums sums;
  certified::Certified<T> certified;
  Recheck refinement;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_features(s);
  prepare_certified(s);
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  upload_features(s);
  halve_points(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_certified(p, device); }

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload<T>,
                                   .restart = restart_recheck<T>,
                                   .assign = assign_certified<T>,
                                   .update = update_any<T, Layout::features>,
                                   .download = download_recheck<T>};
}  // namespace

LADDER_VARIANT(.id = "v23_certified", .base = "v22_tensor_split",
               .idea = "one product of halves; a bound proves the label, or the row is rechecked exactly",
               .expect =
                   "a third of v22's products: 2.5 to 3 times as fast where K and D are large, and exact; 1 row in 100 "
                   "is rechecked, more where clusters overlap in few dimensions. Where many centroids are equally near "
                   "(duplicates), rechecks cost more than products. A new algorithm: bounds, list and recheck have no "
                   "counterpart in v22",
               .shows = "assign", .counter = "tensor_percent", .source = "this project: docs/certificate.md",
               .arithmetic = {.form = Arithmetic::Form::exact}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
