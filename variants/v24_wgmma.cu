// v24: the same products, bounds and rechecks as v23, by the instructions that Hopper's tensor cores reach their speed
// with: products of a whole warpgroup (parts/wgmma.cuh). 64 points are an operand in registers, and stay there while
// all centroids pass by; where a point has too many features for that, they are read again for each tile of centroids,
// a few steps ahead of their products. Centroids come through a ring of bulk copies that one warp keeps full, each of
// them to two blocks at once (parts/bulk_ring.cuh). Two warpgroups take turns: while one multiplies, the other works
// out the bounds of its last tile. All this is compute capability 9.0 and nothing else.
// for cuda: 90a
#include "parts/update_lanes.cuh"
#include "parts/warpgroup_assign.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Rows<T> rows;
  Sums sums;
  CertifiedInGroups<T> warpgroup;
  Recheck refinement;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_features(s);
  prepare_in_groups(s);
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  upload_features(s);
  halve_points_in_groups(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_in_groups(p, device); }

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload<T>,
                                   .restart = restart_recheck<T>,
                                   .assign = assign_in_groups<T>,
                                   .update = update_any<T, Layout::features>,
                                   .download = download_recheck<T>};
}  // namespace

LADDER_VARIANT(.id = "v24_wgmma", .base = "v23_certified",
               .idea = "products of warpgroups: points in registers, centroids in a ring of bulk copies, two in turn",
               .expect =
                   "the same products at some 750 TFLOP/s instead of 300: 2 to 2.5 times as fast where K and D are "
                   "large; at D = 32 the bounds take longer than the products, and it is no faster. A larger step: all "
                   "of the kernel's ways to its operands are others",
               .shows = "assign",
               .source =
                   "NVIDIA's CUTLASS, kernels with ping-pong warpgroups; J. Shah and others, FlashAttention-3, 2024",
               .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
