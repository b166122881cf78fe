// How many rows a chunk has, so that all device memory of a run stays within a budget: labels, centroids, sums, the
// operands of one chunk and some buffers for its rows, and what the harness and the driver take beside them.
// v32a_chunks introduces it.
#pragma once
#include <unistd.h>

#include <bit>

#include "../pruning/full_dimension.cuh"
#include "../update/exact_sums.cuh"

namespace ladder {

constexpr size_t usual_chunk_bytes = 128 << 20;  // of points: the first copy and the last kernels overlap with nothing
/// A GPU hands out memory in steps of 2 MiB, and kernels take some when they run first.
constexpr size_t driver_bytes = 32 << 20;

/// `rows` of a chunk; 0: not even one fits.
struct ChunkPlan {
  int rows = 0;
  size_t bytes = 0, others = 0, budget = 0;  // of device memory: the run's own, that of harness and driver, allowed
};

inline size_t row_bytes(const Shape& p) { return p.d * p.element_bytes; }

/// Device memory of a run whose chunks have `rows` rows, and `buffers` of them are on the device.
inline size_t chunked_bytes(const Shape& p, const Device& device, int rows, int buffers) {
  Shape chunk = p;
  chunk.n = rows;
  return p.n * sizeof(int32_t) + p.k * row_bytes(p) + exact_sums_bytes(p) + operand_bytes(chunk, device) +
         buffers * size_t(rows) * row_bytes(p);
}

/// As many rows as fit, at most those that are wanted, and about as many in each chunk. `run_bytes`: bytes that the run
/// takes beside chunked_bytes(). The harness keeps the labels before the last ones of `counted` rows on the device.
inline ChunkPlan plan_chunks(const Shape& p, const Device& device, const Axes& axes, int buffers, size_t run_bytes,
                             int counted) {
  ChunkPlan plan;
  plan.budget = size_t(axes["budget_mib"]) << 20;
  plan.others = counted * sizeof(int32_t) + (device.kind == DeviceKind::cuda ? driver_bytes : 0);
  const int wanted = axes["chunk_rows"] > 0 ? axes["chunk_rows"]
                                            : int(std::clamp<size_t>(usual_chunk_bytes / row_bytes(p), 1, size_t(p.n)));
  const auto bytes = [&](int rows) { return chunked_bytes(p, device, rows, buffers) + run_bytes; };
  int fits = 0;
  for (int more = std::min(wanted, p.n); fits < more;) {
    const int middle = fits + (more - fits + 1) / 2;
    if (bytes(middle) + plan.others <= plan.budget)
      fits = middle;
    else
      more = middle - 1;
  }
  if (fits > 0) plan.rows = blocks(p.n, blocks(p.n, fits));
  plan.bytes = bytes(std::max(1, plan.rows));
  return plan;
}
inline ChunkPlan plan_chunks(const Shape& p, const Device& device, const Axes& axes, int buffers) {
  return plan_chunks(p, device, axes, buffers, 0, p.n);
}

constexpr int most_budget = 1 << 16;  // MiB

/// Why this plan cannot be run; empty if it can.
inline std::string refuse_plan(const ChunkPlan& plan, const Device& device, int buffers) {
  const auto mib = [](size_t bytes) { return std::to_string((bytes >> 20) + (bytes % (1 << 20) > 0)) + " MiB"; };
  if (plan.budget > device.memory_bytes)
    return "budget_mib is " + std::to_string(plan.budget >> 20) + ", and the device has " + mib(device.memory_bytes) +
           ": give it less";
  if (plan.rows > 0) return "";
  const size_t least = plan.bytes + plan.others, next = std::bit_ceil(((least - 1) >> 20) + 1);
  return "labels, centroids, sums and " + std::to_string(buffers) + (buffers > 1 ? " buffers" : " buffer") +
         " of one row take " + mib(least) + " of device memory, and the budget is " + mib(plan.budget) + ": " +
         (next <= most_budget ? "set budget_mib to " + std::to_string(next) + " or more" : "give it fewer points");
}
inline std::string refuse_chunks(const Shape& p, const Device& device, const Axes& axes, int buffers) {
  const std::string why = refuse_full_dimension(p, device);
  return why.empty() ? refuse_plan(plan_chunks(p, device, axes, buffers), device, buffers) : why;
}

/// Why this host cannot page-lock a copy of all points; empty if it can.
inline std::string refuse_page_locking(const Shape& p) {
  const size_t gib = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE)) >> 30;
  const size_t needed = (size_t(p.n) * row_bytes(p) >> 30) + 1;
  if (needed <= gib) return "";
  return "its page-locked copy of the points takes " + std::to_string(needed) + " GiB, and this host has " +
         std::to_string(gib) + " GiB of memory: v32c_mapped_file leaves points in their file";
}

/// The two axes of a variant with chunks. A chunk has at most `chunk_rows` rows; 0: usual_chunk_bytes.
inline std::vector<Axis> chunk_axes() {
  std::vector<int> budgets;
  for (int mib = 1; mib <= most_budget; mib *= 2) budgets.push_back(mib);
  return {{"budget_mib", budgets, 512}, {"chunk_rows", {0, 1, 33, 96, 1000, 10000, 100000, 1000000}, 0}};
}

}  // namespace ladder
