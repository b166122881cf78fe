// v04r: fewer instructions for a changed row. In v04q each of its entries costs 37: an address of 64 bits is computed
// anew, and branches ask whether a cluster loses the row and whether two parts hold the value. Here a lane steps by a
// fixed distance, a word of shared memory says which row it works on and both clusters, and rows with third parts are
// passed once more, as in the first iteration.
#include "../common/sparse/sparse_pass.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = WholeSums<T>;

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_whole_sums<T, Workspace<T>>,
                                         .upload = upload_whole_sums<sparse_pass::threads, T, Workspace<T>>,
                                         .restart = restart_whole_sums<T, Workspace<T>>,
                                         .iterate = sparse_pass::pass_over_rows<T, Workspace<T>>,
                                         .download = download_sliced_rows<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v04r_short_moves", .base = "v04q_first_apart",
        .idea = "fewer instructions for a changed row: fixed steps, no branches in the loop",
        .expect =
            "counted in the machine code for K = 10: 32 instructions for an entry of a changed row in place of 37, and "
            "two passes of that loop for a slice of blobs30_01, where 11 % of the rows change in an iteration on "
            "average and 9 slices in 10 have one that does. 10 to 25 of 500 instructions for a slice; the atomics, 30 "
            "to 40 of 190 cycles of shared memory, stay: 2 to 5 %, 0.30 to 0.31 ms in a run of ten",
        .shows = "iteration", .counter = "dram_percent", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "own"},
        .axes = {{"percent", {10, 20, 30, 40, 50, 60, 80, 100}, 40}}, .reads_labels = true,
        .refuse = refuse_whole_sums<sparse_pass::Sizes>, .f32 = phases<float>, .f64 = phases<double>)
