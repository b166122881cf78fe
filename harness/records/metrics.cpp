#include "records/metrics.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

namespace ladder {
namespace {

// Wavefronts that the instructions themselves cause, which ncu counts by patching them. The pipe's counters also have
// the turns in which an access waits for others of its multiprocessor, and its sums of sectors scatter.
const std::string loads_by_instruction =
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum + "
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum";
const std::string stores_by_instruction =
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum + "
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm.sum";
const std::string load_conflicts_by_instruction =
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum - "
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum + " +
    loads_by_instruction;
const std::string store_conflicts_by_instruction =
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum - "
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum + " +
    stores_by_instruction;

}  // namespace

const std::vector<LessonMetric>& lesson_metrics() {
  static const std::vector<LessonMetric> all = {
      {"time_ms",
       "ms",
       "time",
       "",
       "how long the kernel ran under the profiler, caches emptied before: to set kernels of one sample beside each "
       "other, never to compare variants",
       {"gpu__time_duration.sum"},
       1e-6},
      {"sm_percent",
       "%",
       "throughput",
       "SM",
       "how near the busiest unit of the multiprocessors is to what it can do: high means bound by arithmetic or issue",
       {"sm__throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"l1_percent",
       "%",
       "throughput",
       "L1",
       "how near the first-level cache, and the shared memory in it, is to what it can do",
       {"l1tex__throughput.avg.pct_of_peak_sustained_active"}},
      {"l2_percent",
       "%",
       "throughput",
       "L2",
       "how near the second-level cache is to what it can do",
       {"lts__throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"dram_percent",
       "%",
       "throughput",
       "DRAM",
       "how near device memory is to what it can do: near 90 means that only fewer bytes help",
       {"dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}},
      {"dram_bytes",
       "byte",
       "throughput",
       "moved",
       "bytes between device memory and L2: beside N x D x element size, how often the points were read",
       {"dram__bytes.sum", "dram__bytes_read.sum + dram__bytes_write.sum"}},
      {"l1_hit_percent",
       "%",
       "caches",
       "L1 hits",
       "of the sectors that were asked of L1, how many it had",
       {"l1tex__t_sector_hit_rate.pct"}},
      {"l2_hit_percent",
       "%",
       "caches",
       "L2 hits",
       "of the sectors that were asked of L2, how many it had",
       {"lts__t_sector_hit_rate.pct"}},
      {"constant_requests",
       "",
       "caches",
       "constant requests",
       "reads of constant memory by an index: 0 where it is not used",
       {"idc__requests.sum"}},
      {"constant_hit_percent",
       "%",
       "caches",
       "constant hits",
       "of those, how many the constant cache had: near 100 while all threads of a warp read one word that fits",
       {"idc__request_hit_rate.pct"}},
      {"sectors_per_load",
       "",
       "memory",
       "sectors/load",
       "32-byte sectors that one load of a warp touches: 4 of floats side by side (8 of doubles), 32 where each thread "
       "reads a row of its own",
       {"smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum + "
        "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum / "
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum / l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"}},
      {"sectors_per_store",
       "",
       "memory",
       "sectors/store",
       "the same of stores",
       {"smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum / l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum / l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"}},
      {"load_requests",
       "",
       "memory",
       "loads",
       "loads from global memory, a warp's counted once: tiles in shared memory and registers make them fewer",
       {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"}},
      {"store_requests",
       "",
       "memory",
       "stores",
       "stores of warps to device memory",
       {"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"}},
      {"bank_conflicts_load",
       "",
       "memory",
       "bank conflicts, loads",
       "extra turns that loads from shared memory took because threads of a warp met in one bank",
       {load_conflicts_by_instruction, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"}},
      {"bank_conflicts_store",
       "",
       "memory",
       "stores",
       "the same of stores",
       {store_conflicts_by_instruction, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"}},
      {"local_requests",
       "",
       "memory",
       "local",
       "accesses to local memory: registers that were spilled, or arrays indexed at run time",
       {"l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum + l1tex__t_requests_pipe_lsu_mem_local_op_st.sum"}},
      {"shared_load_requests",
       "",
       "shared",
       "loads",
       "instructions that load from shared memory, those too whose lanes are all switched off",
       {"smsp__inst_executed_op_shared_ld.sum", "smsp__sass_inst_executed_op_shared_ld.sum"}},
      {"shared_store_requests",
       "",
       "shared",
       "stores",
       "the same of stores",
       {"smsp__inst_executed_op_shared_st.sum", "smsp__sass_inst_executed_op_shared_st.sum"}},
      {"wavefronts_load",
       "",
       "shared",
       "wavefronts, loads",
       "passes over the 32 banks that loads from shared memory took: as many as loads where no two lanes want "
       "different words of one bank, and no lane wants more than 4 bytes",
       {loads_by_instruction, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"}},
      {"wavefronts_store",
       "",
       "shared",
       "stores",
       "the same of stores",
       {stores_by_instruction, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"}},
      {"global_atomics",
       "",
       "atomics",
       "global",
       "atomic operations on device memory, a warp's counted once: what sums kept in shared memory save",
       {"l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum + l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
        "smsp__sass_inst_executed_op_global_atom.sum + smsp__sass_inst_executed_op_global_red.sum",
        "smsp__inst_executed_op_global_atom.sum + smsp__inst_executed_op_global_red.sum"}},
      {"shared_atomics",
       "",
       "atomics",
       "shared",
       "atomic operations on shared memory, a warp's counted once",
       {"smsp__inst_executed_op_shared_atom.sum", "smsp__sass_inst_executed_op_shared_atom.sum"}},
      {"registers",
       "",
       "occupancy",
       "registers",
       "per thread: 65536 of a multiprocessor, divided by these, are the threads that it can hold",
       {"launch__registers_per_thread"}},
      {"shared_bytes", "byte", "occupancy", "shared", "shared memory per block", {"launch__shared_mem_per_block"}},
      {"waves",
       "",
       "occupancy",
       "waves",
       "how many times the grid fills the device: below 1 some multiprocessors have nothing to do",
       {"launch__waves_per_multiprocessor"}},
      {"occupancy_theoretical_percent",
       "%",
       "occupancy",
       "theoretical",
       "warps that registers, shared memory and block size let a multiprocessor hold, of all that it could",
       {"sm__maximum_warps_per_active_cycle_pct"}},
      {"occupancy_achieved_percent",
       "%",
       "occupancy",
       "achieved",
       "warps that it held on average: far below the theoretical, blocks are few or uneven",
       {"sm__warps_active.avg.pct_of_peak_sustained_active"}},
      {"instructions_per_cycle",
       "",
       "issue",
       "instructions/cycle",
       "of a multiprocessor, which can start 4",
       {"sm__inst_executed.avg.per_cycle_active"}},
      {"threads_per_instruction",
       "",
       "issue",
       "threads/instruction",
       "32 where the threads of a warp go one way; fewer where branches, or pruning, part them",
       {"smsp__thread_inst_executed_per_inst_executed.ratio"}},
      {"fadd",
       "",
       "arithmetic",
       "FADD",
       "float additions, per thread",
       {"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"}},
      {"fmul",
       "",
       "arithmetic",
       "FMUL",
       "float multiplications, per thread",
       {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"}},
      {"ffma",
       "",
       "arithmetic",
       "FFMA",
       "float multiply-adds, per thread: N x K x D of them, and hardly an FADD, is the least that distances take",
       {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"}},
      {"dadd",
       "",
       "arithmetic",
       "DADD",
       "double additions, per thread",
       {"smsp__sass_thread_inst_executed_op_dadd_pred_on.sum"}},
      {"dmul",
       "",
       "arithmetic",
       "DMUL",
       "double multiplications, per thread",
       {"smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"}},
      {"dfma",
       "",
       "arithmetic",
       "DFMA",
       "double multiply-adds, per thread",
       {"smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"}},
      {"hfma",
       "",
       "arithmetic",
       "HFMA",
       "half-precision multiply-adds, per thread",
       {"smsp__sass_thread_inst_executed_op_hfma_pred_on.sum"}},
      {"tensor_percent",
       "%",
       "arithmetic",
       "tensor cores",
       "of the time, how long the tensor cores were busy",
       {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"}},
  };
  return all;
}

const std::vector<std::pair<std::string, std::string>>& occupancy_limits() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"registers", "launch__occupancy_limit_registers"}, {"shared memory", "launch__occupancy_limit_shared_mem"},
      {"warps", "launch__occupancy_limit_warps"},         {"blocks", "launch__occupancy_limit_blocks"},
      {"barriers", "launch__occupancy_limit_barriers"},
  };
  return all;
}

const std::string stall_begin = "smsp__average_warps_issue_stalled_", stall_end = "_per_issue_active.ratio";

namespace {

std::vector<std::string> words_in(const std::string& expression) {
  std::istringstream text(expression);
  return {std::istream_iterator<std::string>(text), {}};
}

}  // namespace

std::vector<std::string> names_in(const std::string& expression) {
  std::vector<std::string> names;
  for (const std::string& word : words_in(expression)) {
    if (word.size() > 1) names.push_back(word);  // shorter: an operator
  }
  return names;
}

std::optional<double> value_of(const std::string& expression, const std::map<std::string, double>& given) {
  double sum = 0, sign = 1;
  std::optional<double> numerator;
  for (const std::string& word : words_in(expression)) {
    if (word == "+" || word == "-") {
      sign = word == "-" ? -1 : 1;
    } else if (word == "/") {
      numerator = std::exchange(sum, 0), sign = 1;
    } else {
      const auto found = given.find(word);
      if (found == given.end()) return std::nullopt;
      sum += sign * found->second;
    }
  }
  if (!numerator) return sum;
  if (sum == 0) return std::nullopt;
  return *numerator / sum;
}

bool is_queried(const std::string& name) {
  return name.rfind("launch__", 0) != 0 && name.rfind("sm__maximum_warps", 0) != 0;
}

namespace {

bool is_known(const std::string& expression, const std::vector<std::string>& known) {
  const std::vector<std::string> names = names_in(expression);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return !is_queried(name) || std::find(known.begin(), known.end(), name.substr(0, name.find('.'))) != known.end();
  });
}

}  // namespace

std::vector<std::string> to_ask_for(const std::vector<std::string>& known) {
  std::vector<std::string> wanted;
  for (const LessonMetric& metric : lesson_metrics()) {
    const auto way = std::find_if(metric.from.begin(), metric.from.end(),
                                  [&](const std::string& expression) { return is_known(expression, known); });
    if (way == metric.from.end()) continue;
    for (const std::string& name : names_in(*way)) {
      if (is_queried(name) && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
    }
  }
  return wanted;
}

std::vector<std::string> unknown_metrics(const std::vector<std::string>& known) {
  std::vector<std::string> unknown;
  for (const LessonMetric& metric : lesson_metrics()) {
    if (std::none_of(metric.from.begin(), metric.from.end(),
                     [&](const std::string& expression) { return is_known(expression, known); }))
      unknown.push_back(metric.name);
  }
  return unknown;
}

}  // namespace ladder
