// GPUs by their data sheets (lessons/gpus.json), and how many warps their multiprocessors hold.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

/// What a multiprocessor of one compute capability holds.
struct Multiprocessor {
  int threads = 0, blocks = 0, registers = 0;
  double shared_bytes = 0;            ///< of all blocks together
  double shared_bytes_per_block = 0;  ///< at most
  double reserved_bytes = 0;          ///< of shared memory, per block, by the driver
  std::string from;                   ///< the document
};

struct Figure {
  double value = 0;
  std::string from;  ///< the document that states it
};

struct Gpu {
  std::string name, title;
  std::string capability;            ///< "9.0"
  std::vector<std::string> records;  ///< its names in records
  Multiprocessor multiprocessor;
  /// multiprocessors, clock_mhz, l1_bytes_per_cycle (of one multiprocessor), l2_bytes, dram_gbs, and in TFLOP/s
  /// fp32_tflops, fp64_tflops, tensor_fp16_tflops and tensor_tf32_tflops (without sparsity). A figure that is not
  /// stated is absent.
  std::map<std::string, Figure> figures;

  std::optional<double> figure(const std::string& which) const;
};

/// All of lessons/gpus.json. Throws Error where the file is not what gpus.schema.json says.
const std::vector<Gpu>& known_gpus();
/// By its short name. Throws Error, which names all, where there is no such one.
const Gpu& gpu_named(const std::string& name);
/// By its name in records; null where it is not known.
const Gpu* gpu_of_record(const std::string& name);

/// Percent of the warps that a multiprocessor can hold, for blocks of so many threads, registers per thread and bytes
/// of shared memory (those that the driver reserves included), and what limits them. Registers are given to warps in
/// units of 256, to four warps at a time (NVIDIA's occupancy calculator).
struct Occupancy {
  double percent = 0;
  int blocks = 0;
  std::string limited_by;  ///< registers, shared memory, warps or blocks
};
Occupancy occupancy_of(const Multiprocessor& sm, int threads, int registers, double shared_bytes);

}  // namespace ladder
