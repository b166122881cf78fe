// v24: a look at a tile of v24 has to work out its bounds, of three numbers of each centroid. These come from shared
// memory, one load for two products, and no registers are free to ask for them early: so it waits, until the other
// warpgroup has multiplied and waits, too. Here nothing is left to work out. What a bound takes besides the product is
// a sum of products itself, so it goes into the rows, as four columns more, and what the tensor core adds up is the
// bound (certified/bound_columns.cuh).
// for cuda: 90a
#include "../common/certified/assign_sm90.cuh"
#include "../common/update/lane_private.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "../common/certified/bound_columns.cuh"

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
  prepare_sm90<T, EpilogueBoundColumns>(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_features(s);
  quantize_points_sm90<EpilogueBoundColumns>(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_sm90(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign_sm90<T, EpilogueBoundColumns>,
                                         .update = update_any<T, Layout::features>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v24_branch_free_argmax", .base = "v24_top2_epilogue",
        .idea = "a bound is a product: what it takes of a point and of a centroid are four columns of their rows",
        .expect =
            "the base's kernel at kmcuda_isotropic on an H200 takes 1.88 ms, its tensor cores busy three "
            "quarters of the time. Of 408 features and four columns there are no more steps than of 408, and "
            "four instructions for a product are left of seven, none of which waits: tensor cores busy nine "
            "tenths of the time, 1.6 ms; over many iterations less is gained, for power is a limit then. Rows "
            "that are shorter than others by 2^20 and more are left to the recheck. A new algorithm: another "
            "certificate, which is part of the product and needs all rows in one unit",
        .shows = "assign", .source = "this project; columns that are bounds are those of v27_feature_filter",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda}, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
