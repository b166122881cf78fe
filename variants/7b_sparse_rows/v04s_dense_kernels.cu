// v04s: a dense file takes the dense kernels. Since v04a the count of stored entries has decided on the device between
// sparse rows and dense points, but what followed for dense ones was the plain kernel of chapter 1 and its update. Here
// they take those of v25g, where its shared memory holds the shape.
//
// for cuda: 90a
#include "../common/few_clusters/one_pass.cuh"
#include "../common/sparse/sparse_pass.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : SparseSums<T>, BulkRows<T> {
  bool few_clusters = false;  // v25g's kernels take this shape
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  s.ws.few_clusters = refuse_few_clusters<Sizes>(s.problem, s.device_info, {}).empty();
  s.ws.few_clusters ? prepare_bulk_rows(s) : prepare_sums(s);
  prepare_sparse_sums(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_whole_sums<sparse_pass::threads>(s);  // s.x has the points where sparse rows do not pay
  if (s.ws.sparse.used || !s.ws.few_clusters) return;
  const int pitch = bulk_pitch<T>(s.d);
  if (pitch != s.d) {
    check(cudaMemsetAsync(s.ws.rows, 0, size_t(s.n) * pitch * sizeof(T), s.stream), "clearing the rows");
    check(cudaMemcpy2DAsync(s.ws.rows, pitch * sizeof(T), s.x, s.d * sizeof(T), s.d * sizeof(T), s.n,
                            cudaMemcpyDeviceToDevice, s.stream),
          "copying the points to their rows");
  }
  measure_points(s, s.ws.rows, pitch);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  s.ws.sparse.used ? restart_whole_sums(s) : s.ws.few_clusters ? restart_passes(s) : restart_rows(s);
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  s.ws.few_clusters && !s.ws.sparse.used ? pass_over_points(s) : sparse_pass::pass_over_rows(s);
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  s.ws.few_clusters && !s.ws.sparse.used ? download_refined(s) : download_sliced_rows(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
    .prepare = prepare<T>, .upload = upload<T>, .restart = restart<T>, .iterate = iterate<T>, .download = download<T>};
}  // namespace

// The sums' roundoff is that of v25g's kernels, which add in float; those of sparse rows are whole numbers, and exact.
// The operands of the products are not told: they are halves or floats, as the file has it.
LADDER_VARIANT(
        .id = "v04s_dense_kernels", .base = "v04r_short_moves", .joins = "v25g_one_finish",
        .idea = "a dense file takes the kernels for few clusters: labels and sums in one pass on tensor cores",
        .expect =
            "blobs30_01 (90 % zeros): what v04r takes, as it is the same kernel. blobs30_00 (dense): what v25g takes, "
            "0.98 ms of an iteration in a run of ten, plus 1.0 to 1.2 ms of an upload that counts the entries of each "
            "row: the points once from memory, a warp per row. Files cross over at 35 % stored entries, where the "
            "curves of v04r and v25g cross, in place of 40",
        .shows = "iteration", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0},
        .axes = {{"percent", {10, 20, 30, 35, 40, 50, 60, 80, 100}, 35}}, .reads_labels = true,
        .refuse = refuse_whole_sums<sparse_pass::Sizes>, .f32 = phases<float>, .f64 = phases<double>)
