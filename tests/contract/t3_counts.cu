// A variant that reads the labels of the iteration before, counts by itself which of them change, and tells how many
// distances it computed. It needs no count of the harness's.
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, unsigned long long* changed, int n, int k,
                              int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(i) * d + f] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  if (label[i] != best) atomicAdd(changed, 1ull);
  label[i] = best;
}

struct Own {
  Sums sums;
};

template <class T>
void prepare(Run<T, Own>& s) {
  prepare_sums(s);
  s.changed = s.template device<unsigned long long>(1);
}

template <class T>
void assign(State<T>& s) {
  check(cudaMemsetAsync(s.changed, 0, sizeof *s.changed, s.stream), "clearing the count");
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.changed, s.n, s.k, s.d);
  s.counters["distances"].push_back(int64_t(s.n) * s.k);
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign<T>,
                                .update = update_shared<T, Layout::rows>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t3_counts", .base = "v05_shared_update", .idea = "counts changed labels in its kernel",
               .shows = "iteration", .reads_labels = true, .refuse = refuse_update_shared, .f32 = phases<float>,
               .f64 = phases<double>)
