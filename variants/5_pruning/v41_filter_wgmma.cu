// v41: the filter's products by warpgroups. Its short rows, 2 to 8 k-steps of a product, are multiplied by wgmma, with
// a TMA ring of centroid tiles and three or four consumer warpgroups per block (gemm/narrow_mainloop_sm90.cuh). While
// one half of a 64 x 128 tile is multiplied, the epilogue tests the other, for one bit in nearly all cases: is any
// product not negative? A LOP3 per two products answers that. The CPU device has no warpgroups and keeps the base's
// form.
//
// for cuda: 90a
#include "../common/filter/filter_sm90.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : RankedState<T> {};

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_filtered<DeviceFilter>(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_ranked<T>,
                                         .upload = upload_ranked<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update_sorted<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(.id = "v41_filter_wgmma", .base = "v40_rank_selection",
               .idea = "the filter by wgmma, its epilogue one LOP3 per two products",
               .expect =
                   "of the base's labels at kmcuda on an H200 a guess takes 0.42 ms and a filter 0.99 by mma.sync. "
                   "Warpgroups multiply twice as fast, and the epilogue is half an instruction per product: 0.25 and "
                   "0.35. What remains is exact distances. A larger step: all of the kernels' ways to their operands "
                   "are others",
               .shows = "assign",
               .source = "this project; the ring and the products are those of v27_tma_ring and v26_wgmma",
               .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true,
               .refuse = refuse_filter, .f32 = phases<float>, .f64 = phases<double>)
