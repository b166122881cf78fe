// How many rows a chunk has, so that all device memory of a run stays within a budget: labels, centroids, sums, the
// operands of one chunk and some buffers for its rows. The count is of the bytes that are asked for; a GPU hands out
// large pieces of memory in steps of 2 MiB. v32a_chunks introduces it.
#pragma once
#include "../pruning/full_dimension.cuh"
#include "../update/exact_sums.cuh"

namespace ladder {

constexpr size_t usual_chunk_bytes =
    128 << 20;  // of points: what is neither copied nor computed under another is short

/// `rows` of a chunk; 0: not even one fits.
struct ChunkPlan {
  int rows = 0;
  size_t bytes = 0, budget = 0;  // of device memory: taken, allowed
};

inline size_t row_bytes(const Shape& p) { return p.d * p.element_bytes; }

/// Device memory of a run whose chunks have `rows` rows, and `buffers` of them are on the device.
inline size_t chunked_bytes(const Shape& p, const Device& device, int rows, int buffers) {
  Shape chunk = p;
  chunk.n = rows;
  return p.n * sizeof(int32_t) + p.k * row_bytes(p) + exact_sums_bytes(p) + operand_bytes(chunk, device) +
         buffers * size_t(rows) * row_bytes(p);
}

/// As many rows as fit, at most those that are wanted, and about as many in each chunk.
inline ChunkPlan plan_chunks(const Shape& p, const Device& device, const Axes& axes, int buffers) {
  const size_t budget = size_t(axes["budget_mib"]) << 20;
  const int wanted = axes["chunk_rows"] > 0 ? axes["chunk_rows"]
                                            : int(std::clamp<size_t>(usual_chunk_bytes / row_bytes(p), 1, size_t(p.n)));
  int fits = 0;
  for (int more = std::min(wanted, p.n); fits < more;) {
    const int middle = fits + (more - fits + 1) / 2;
    if (chunked_bytes(p, device, middle, buffers) <= budget)
      fits = middle;
    else
      more = middle - 1;
  }
  if (fits == 0) return {0, chunked_bytes(p, device, 1, buffers), budget};
  const int rows = blocks(p.n, blocks(p.n, fits));
  return {rows, chunked_bytes(p, device, rows, buffers), budget};
}

inline std::string refuse_chunks(const Shape& p, const Device& device, const Axes& axes, int buffers) {
  if (const std::string why = refuse_full_dimension(p, device); !why.empty()) return why;
  const ChunkPlan plan = plan_chunks(p, device, axes, buffers);
  if (plan.rows > 0) return "";
  return "labels, centroids, sums and " + std::to_string(buffers) + " chunks of one row take " +
         std::to_string(plan.bytes) + " bytes of device memory, the budget is " + std::to_string(plan.budget) +
         ": set budget_mib to " + std::to_string((plan.bytes >> 20) + 1) + " or more";
}

/// The two axes of a variant with chunks. A chunk has at most `chunk_rows` rows; 0: usual_chunk_bytes.
inline std::vector<Axis> chunk_axes() {
  return {{"budget_mib", {1, 2, 4, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}, 512},
          {"chunk_rows", {0, 1, 33, 96, 1000, 10000, 100000, 1000000}, 0}};
}

}  // namespace ladder
