// Kernels of summed_devices.cuh.
#include "summed_devices.cuh"

namespace ladder {
namespace {

constexpr int mark_shift = 32;  // the low half counts points, below 2^31; the high half devices on which it is dirty

__global__ void pack_counts_kernel(const int* count, DirtyClusters dirty, const MoveCounters* moves,
                                   unsigned long long* behind, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < k) behind[j] = static_cast<unsigned>(count[j]) | (dirty[j] ? 1ull << mark_shift : 0);
  if (j == 0) behind[k] = moves->points;
}

__global__ void unpack_counts_kernel(const unsigned long long* behind, int* count, DirtyClusters dirty,
                                     unsigned long long* changed, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j == 0) *changed = behind[k];
  if (j >= k) return;
  count[j] = int(behind[j] & ((1ull << mark_shift) - 1));
  if (behind[j] >> mark_shift) dirty.mark(j);
}

unsigned long long* behind_of(const ExactSums& sums, const FixedPoint& format, int k, int d) {
  return sums.sum + size_t(format.words) * k * d;
}

}  // namespace

void pack_counts(cudaStream_t stream, const SummedDevices& m, const MoveCounters* moves, int k, int d) {
  launch(pack_counts_kernel, blocks(k, 256), 256, 0, stream, m.count, m.dirty, moves, behind_of(m, m.format, k, d), k);
}

void unpack_counts(cudaStream_t stream, const SummedDevices& m, int k, int d) {
  launch(unpack_counts_kernel, blocks(k, 256), 256, 0, stream, behind_of(m.all, m.format, k, d), m.all.count, m.dirty,
         m.changed, k);
}

}  // namespace ladder
