// v24: v23 asks of each product whether it reaches the best that is known of its row, and goes through a tile once
// more for each that does. A warp has sixteen rows: in nearly every tile one of them finds something, and all wait,
// longer than the other warpgroup multiplies. Here a tile is looked at once, in the same way whatever is in it: the two
// greatest bounds of each row, by minimum and maximum alone. A bound carries the number of its column in its last six
// bits, which make it a little wider, so nobody has to remember who had it (certified/epilogue_top2.cuh).
// for cuda: 90a
#include "../common/certified/assign_sm90.cuh"
#include "../common/update/lane_private.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/certified/epilogue_top2.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
  WarpgroupOperands<T> warpgroup;
  Refinement refinement;
  CandidateRows undecided;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_sm90<T, EpilogueTop2>(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_points_sm90(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_sm90(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign_sm90<T, EpilogueTop2>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(.id = "v24_top2_epilogue", .base = "v23_multicast",
               .idea =
                   "a look at a tile without a branch: the two greatest bounds, each with its column in its last bits",
               .expect =
                   "the base's assignment at kmcuda_isotropic on an H200 takes 3.23 ms in the first iteration, 2.25 "
                   "in later ones; the products alone, at the rate of the prototypes, 1.6. Seven instructions for a "
                   "product, four of them at half rate, are 670 cycles a tile and warpgroup, products at 408 features "
                   "2,180: if the look is what the tensor cores wait for, 1.7 to 1.8 in all iterations. At 128 "
                   "features both take as long, and below that little is gained. A larger step: rows that it does not "
                   "prove have up to eight candidates, and are compared with those",
               .shows = "assign",
               .source = "this project; numbers in the last bits are those of v28_pca_projection's guess",
               .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
