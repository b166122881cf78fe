// A whole solve in one cooperative launch: what the kernel and the host tell each other. v05e_one_launch introduces it.
//
// Sums of an iteration are in one of three buffers. An iteration adds to its own, and clears the next one, which was
// last read two iterations ago: one barrier of the grid is between any two of these.
#pragma once
#include <cooperative_groups.h>

#include "exact_box_sums.cuh"
#include "spatial_order.cuh"

namespace ladder {

constexpr int kept_iterations = 1024;  // after which the kernel ends, at the latest, and tells the host

struct Progress {
  int done, ended;
  unsigned arrived;                             // blocks at barriers since the run began, for a barrier of a rung's own
  unsigned long long changed[kept_iterations];  // labels changed in iteration i, from 0: at i modulo kept_iterations
};

struct OneLaunch {
  static constexpr int buffers = 3;
  Progress *progress = nullptr, *host = nullptr;  // page-locked
  unsigned long long* sum = nullptr;              // 3 x entries
};

/// Numbers of a buffer: those of the sums, and the number of changed labels.
__host__ __device__ inline int sum_entries(const FixedPoint& format, int k, int d) {
  return k * (BoxSums::values(format, d) + 1) + 1;
}

/// What the kernel is given.
template <class T, int d>
struct Solve {
  const T* x;
  const Box<d>* bounds;
  const unsigned long long* total;
  T* c;
  int32_t* label;
  int* box_label;
  unsigned long long* sum;
  Progress* progress;
  FixedPoint format;
  Stop stop;
  int n, k;
  bool shared_sums;  ///< a block adds up its sums in shared memory, if they fit
};

// ---- phases; W::one_launch, W::sums, W::boxes, W::box_label

template <class T, class W>
void prepare_one_launch(Run<T, W>& s) {
  FixedPoint widest;
  widest.words = FixedPoint::most_words;
  auto& own = s.ws.one_launch;
  own.progress = s.template device<Progress>(1);
  own.host = s.template pinned<Progress>(1);
  own.sum = s.template device<unsigned long long>(size_t(OneLaunch::buffers) * sum_entries(widest, s.k, s.d));
}

/// Shared memory of a block: its centroids, with `beside` bytes for each that the rung adds, and its sums.
inline size_t centroid_bytes(const Shape& p, size_t beside) { return p.k * (p.d * p.element_bytes + beside); }
inline size_t shared_sum_bytes(const FixedPoint& format, const Shape& p) {
  return sum_entries(format, p.k, p.d) * sizeof(unsigned long long);
}

inline std::string refuse_one_launch(const Shape& p, const Device& device, size_t beside = 0) {
  if (p.d > most_dimensions || centroid_bytes(p, beside) <= device.shared_bytes_optin) return refuse_dimensions(p);
  return "each block keeps all centroids in shared memory, " + std::to_string(centroid_bytes(p, beside)) +
         " bytes, and has " + std::to_string(device.shared_bytes_optin) + ": take fewer clusters, or v05d_warp_sums";
}

/// Phase `solve`: start(kernel arguments, shared bytes) launches the kernel, which goes on where the last launch ended.
template <int d, class T, class W, class Start>
void solve_in_one_launch(Run<T, W>& s, const Start& start, size_t beside = 0) {
  auto& own = s.ws.one_launch;
  const auto& sums = s.ws.sums;
  const size_t sum_bytes = shared_sum_bytes(sums.format, s.problem);
  const size_t bytes = centroid_bytes(s.problem, beside);
  const bool shared_sums = bytes + sum_bytes <= s.device_info.shared_bytes_optin;
  check(cudaMemsetAsync(own.sum, 0, OneLaunch::buffers * sum_bytes, s.stream), "clearing the sums");
  check(cudaMemsetAsync(own.progress, 0, sizeof *own.progress, s.stream), "clearing the progress");
  check(cudaMemsetAsync(s.ws.box_label, 0xff, boxes_of(s.n) * sizeof(int), s.stream), "clearing the labels of boxes");
  do {
    const Solve<T, d> solve{s.x,         static_cast<const Box<d>*>(s.ws.boxes.bounds),
                            sums.total,  s.c,
                            s.label,     s.ws.box_label,
                            own.sum,     own.progress,
                            sums.format, s.problem.stop,
                            s.n,         s.k,
                            shared_sums};
    start(solve, bytes + (shared_sums ? sum_bytes : 0));
    check(cudaMemcpyAsync(own.host, own.progress, sizeof *own.host, cudaMemcpyDeviceToHost, s.stream),
          "downloading the progress");
    check(cudaStreamSynchronize(s.stream), "solving on the device");
    for (int i = int(s.reassigned.size()); i < own.host->done; ++i)
      s.reassigned.push_back(int64_t(own.host->changed[i % kept_iterations]));
  } while (!own.host->ended);
}

}  // namespace ladder
