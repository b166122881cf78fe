// v06: each lane of a warp has sums of its own (privatisation): K x 32 doubles side by side in shared memory, and the
// 32 columns are added once at the end (lane_private.cuh). In v05 all threads of a block add to the same K x D sums:
// where K is small the lanes of a warp meet in the same words, and as shared memory has no addition of doubles, each
// becomes a loop of compare-and-swap. Where K is too large for 32 columns, v05's sums per block stay.
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/feature_major.cuh"
#include "../common/update/lane_private.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  label[i] = best;
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
};

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  if (s.k <= lane_sums_clusters) return update_lanes<T, Layout::features>(s);
  update_shared<T, Layout::features>(s);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_features<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v06_lane_sums", .base = "v05_soa", .idea = "sums of its own for every lane",
               .expect =
                   "update at K = 10 bound by reading the points once, not by compare-and-swap: 5 to 10 times faster; "
                   "nothing changes for K above 64",
               .shows = "update", .counter = "shared_atomics",
               .source = "the privatisation of histograms (Gomez-Luna and others, 2013)",
               .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)

LADDER_LESSON(.predict = {{"shared_atomics", "0", "blobs30_00"},
                          {"load_requests", "ceil(N / 32) * (4 * ceil((D + 1) / 16) + D)", "blobs30_00"},
                          {"dram_bytes", "N * D * B + 4 * N * ceil((D + 1) / 16)", "blobs30_00"},
                          {"global_atomics", "ceil(N / 8192) * (ceil(D / 4) * ceil(4 * K / 32) + 1)", "blobs30_00"},
                          {"shared_bytes", "reserved + 4 * 4 * K * 32 * 8", "blobs30_00"},
                          {"occupancy_theoretical_percent", "occupancy(128, registers, shared_bytes)", "blobs30_00"}},
              .ask =
                  "Occupancy falls from 100 to about 31 %, and the update gets several times faster. How can "
                  "that be?",
              .answer =
                  "Sums of its own for each lane take 32 times the shared memory: 40 KB a block, five blocks of "
                  "four warps. But no warp waits for a compare-and-swap any more. What is left is to read the "
                  "points once, and 20 warps keep enough loads in flight for that.")
