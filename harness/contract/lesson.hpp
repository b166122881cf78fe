// The lesson of a variant: what its counters must be by arithmetic on paper, and a question about it.
//
//   LADDER_LESSON(.predict = {{"load_requests", "2 * N * K * D / 32"}}, .ask = "...?", .answer = "...")
//
// It is the part of the card that `ladder explain` reads from the source text, and no part of what is compiled: rows of
// a record stay those of this text when a lesson changes (base/source_text.hpp, source_hash). So it has a macro of its
// own, after LADDER_VARIANT.
#pragma once
#include <initializer_list>
#include <string_view>

namespace ladder {

/// A counter of `ladder profile` (records/metrics.cpp has their names and units), or multiply_adds or additions of
/// floats and doubles together: of one launch of the kernel that takes most of the time, in the scope in which the
/// variant shows (update, else assign). "update.global_atomics" names another scope. tensor_flop, which no counter has,
/// is the operations of the tensor cores. Any other name is a value that the formulas after it use.
///
/// formula: numbers, + - * / and parentheses, min, max, ceil, floor, the names of predictions before this one and of
/// the variant's tuning axes, and
///   N, K, D         points, clusters, features
///   B               bytes per value: 4 or 8
///   registers       per thread, as counted: the compiler decides them
///   multiprocessors of the GPU
///   reserved        bytes of shared memory that the driver takes of each block: 1,024 from compute capability 8.0 on
///   occupancy(threads per block, registers per thread, bytes of shared memory per block)   percent
///   from_dram(bytes, times)   what DRAM delivers where `bytes` are read so many times over: all of it, but only once
///                             what fits the L2 cache
/// where: globs of the workloads that it holds on, with commas between them; none: all
struct Prediction {
  std::string_view name, formula, where = {};
};

struct Lesson {
  std::initializer_list<Prediction> predict;
  std::string_view ask, answer;
};

}  // namespace ladder

/// Checks the form of the lesson; nothing of it is in the module.
#define LADDER_LESSON(...) static_assert(sizeof(ladder::Lesson{__VA_ARGS__}) > 0);
