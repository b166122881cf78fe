// Kernels of tail_rows.cuh.
#include "tail_rows.cuh"

namespace ladder {
namespace {

__global__ void pack_labels_kernel(const int32_t* label, RowRange share, unsigned long long* words, int n) {
  const int word = blockIdx.x * blockDim.x + threadIdx.x;
  if (word >= (n + 1) / 2) return;
  const auto label_of = [&](int row) {
    const int at = row - share.first;
    return at >= 0 && at < share.count ? static_cast<unsigned long long>(label[at]) : 0ull;
  };
  words[word] = label_of(2 * word) | label_of(2 * word + 1) << 32;
}

__global__ void unpack_labels_kernel(const unsigned long long* words, int32_t* label, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) label[row] = int32_t(words[row / 2] >> (row % 2 * 32));
}

template <class T>
__global__ void divide_head_and_tail_kernel(ExactSums head, ExactSums tail, const MoveCounters* moves,
                                            unsigned long long* changed, T* c, int k, int d) {
  const int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (e == 0) *changed += moves->points;
  if (e >= int64_t(k) * d) return;
  const int count = head.count[e / d] + tail.count[e / d];
  if (count == 0) return;
  const size_t pitch = size_t(k) * d;
  SumWords sum(head.sum + e, pitch, head.format);
  const SumWords more(tail.sum + e, pitch, head.format);
#pragma unroll  // a dynamically indexed array would go to local memory
  for (int w = 0; w < FixedPoint::most_words; ++w) sum.of[w] += more.of[w];
  c[e] = mean_of<T>(sum, count, head.format);
}

}  // namespace

void pack_labels(cudaStream_t stream, const int32_t* label, const RowRange& share, unsigned long long* words, int n) {
  launch(pack_labels_kernel, blocks(n, 512), 256, 0, stream, label, share, words, n);
}

void unpack_labels(cudaStream_t stream, const unsigned long long* words, int32_t* label, int n) {
  launch(unpack_labels_kernel, blocks(n, 256), 256, 0, stream, words, label, n);
}

template <class T>
void divide_head_and_tail(cudaStream_t stream, const SummedDevices& head, const IncrementalSums& tail,
                          const MoveCounters* moves, T* c, int k, int d) {
  launch(divide_head_and_tail_kernel<T>, blocks(int64_t(k) * d, 256), 256, 0, stream, head.all, tail, moves,
         head.changed, c, k, d);
}

template void divide_head_and_tail<float>(cudaStream_t, const SummedDevices&, const IncrementalSums&,
                                          const MoveCounters*, float*, int, int);
template void divide_head_and_tail<double>(cudaStream_t, const SummedDevices&, const IncrementalSums&,
                                           const MoveCounters*, double*, int, int);

}  // namespace ladder
