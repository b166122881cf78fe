// v32: sums that are the same in any order. The base adds doubles by atomics, each addition rounds, and atomics arrive
// in another order in every run: centroids differ in their last bits, after some iterations a few labels differ too,
// and two runs of the same solve part. Here a sum is a whole number, in 64-bit words (update/reproducible_sum.cuh), and
// nothing is rounded but the mean at the end, once. So labels and centroids have the same bits in every run and on
// every GPU. Points stay row-major, as they arrive: neighbouring threads add neighbouring features of a point. From
// here on the assignment is v31's on a GPU and the mma.sync form on the CPU device (pruning/full_dimension.cuh).
//
// for cuda: 90a
#include "../common/pruning/full_dimension.cuh"
#include "../common/update/exact_sums.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FullDimension<T> {
  ExactSums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_full_dimension(s);
  prepare_exact_sums(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  choose_format(s, s.x);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_full_dimension(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  clear_exact_sums(s);
  add_exact<T>(s.stream, s.x, s.label, s.ws.sums, s.n, s.k, s.d);
  divide_exact(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_full_dimension(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_refinement<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(.id = "v32_reproducible_sums", .base = "v31_bound_columns",
               .idea = "sums as whole numbers: the same centroids to the last bit in any order of the atomics",
               .expect =
                   "122 million additions of 64-bit words at kmcuda, some of a float's two digits: 500 GB/s of L2 "
                   "atomics and the 0.5 GB of points, read once, give 0.8 to 1.2 ms on an H200 where the base's update "
                   "takes 2.8: its points lie feature by feature, and neighbouring threads add to sums of different "
                   "clusters. Clearing and dividing 16 MB a word takes 0.02 ms. Where K is small many atomics contend "
                   "for few words, and it is slower than the base. Two runs give equal bits. A new algorithm: sums in "
                   "fixed point",
               .shows = "update", .counter = "global_atomics",
               .source = "U. Kulisch and W. Miranker, exact sums in fixed point, 1981",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
