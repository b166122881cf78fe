#include "contract/launch.cuh"
#include "worker/stock.hpp"

namespace ladder::stock {
namespace {

__global__ void count_changed_kernel(const int32_t* label, int32_t* previous, int n, unsigned long long* changed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int32_t now = i < n ? label[i] : 0;
  const bool moved = i < n && now != previous[i];
  if (moved) previous[i] = now;
  const int count = __syncthreads_count(moved);
  if (threadIdx.x == 0 && count > 0) atomicAdd(changed, static_cast<unsigned long long>(count));
}

#ifdef __CUDACC__
__global__ void clock_kernel(unsigned long long* out) {
  unsigned long long begin_ns, end_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin_ns)::"memory");
  const long long begin = clock64();
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end_ns)::"memory");
  } while (end_ns - begin_ns < 50000);
  out[0] = static_cast<unsigned long long>(clock64() - begin);
  out[1] = end_ns - begin_ns;
}
#endif

}  // namespace

void poison_labels(int32_t* label, int n, cudaStream_t stream) {
  check(cudaMemsetAsync(label, 0xFF, n * sizeof(int32_t), stream), "poisoning the labels");
}

void count_changed(const int32_t* label, int32_t* previous, int n, unsigned long long* changed, cudaStream_t stream) {
  check(cudaMemsetAsync(changed, 0, sizeof *changed, stream), "clearing the count of changed labels");
  launch(count_changed_kernel, blocks(n, 256), 256, 0, stream, label, previous, n, changed);
}

void measure_clock([[maybe_unused]] unsigned long long* out, [[maybe_unused]] cudaStream_t stream) {
#ifdef __CUDACC__
  launch(clock_kernel, 1, 1, 0, stream, out);
#endif
}

}  // namespace ladder::stock
