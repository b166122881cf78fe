// What a k-means problem is, and how exactly it is to be solved. Host only: needs no CUDA.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "../base/error.hpp"

namespace ladder {

// ---------------------------------------------------------------------------------------------- what is to be solved

enum class Metric { euclidean };

/// When a solve ends. `reassigned`: when at most `fraction` * N labels changed in an iteration; `exact`: when none did;
/// `fixed`: after `iterations`. Every rule also ends after `max_iterations`.
struct Stop {
  enum class Rule { reassigned, exact, fixed } rule = Rule::exact;
  double fraction = 0;
  int iterations = 0;
  int max_iterations = 300;
  /// Does a solve end after `done` iterations, the last of which changed `reassigned` of n labels?
  bool reached(int done, int64_t reassigned, int64_t n) const {
    if (done >= max_iterations) return true;
    if (rule == Rule::fixed) return done >= iterations;
    return double(reassigned) <= (rule == Rule::exact ? 0.0 : fraction * double(n));
  }
};

/// "exact", "reassigned:0.01", "fixed:10".
std::string to_string(const Stop& stop);
/// The inverse; throws Error with the rule's grammar where the text is not one.
Stop stop_rule(const std::string& text);

/// What a variant may look at before it agrees to run: sizes, not data.
struct Shape {
  int n = 0, k = 0, d = 0;
  size_t element_bytes = 4;  ///< 4: float, 8: double
  bool sparse = false;       ///< points are given as CSR rows, Problem::points is null
  Metric metric = Metric::euclidean;
  Stop stop;
};

/// Points as compressed sparse rows: row i owns entries [row_begin[i], row_begin[i + 1]).
template <class T>
struct Csr {
  const int64_t* row_begin = nullptr;  ///< n + 1
  const int32_t* column = nullptr;     ///< one per stored entry, ascending within a row
  const T* value = nullptr;
};

/// A problem in host memory that nobody writes to (it may be a mapped file).
template <class T>
struct Problem : Shape {
  const T* points = nullptr;     ///< n x d, row-major; null where the points are sparse
  Csr<T> csr;                    ///< set where the points are sparse
  const T* centroids = nullptr;  ///< k x d, the initial centroids
};

// ----------------------------------------------------------------------------------------------- where, how exactly

/// `cuda`: a GPU. `simt`: the CPU device of harness/simt, which runs the same .cu text. `cpu`: native host code.
enum class DeviceKind { cuda, simt, cpu };
const char* to_string(DeviceKind kind);
/// Throws Error where the name is none of the three.
DeviceKind device_kind(const std::string& name);

/// How a variant computes distances and sums: it decides the error that validation allows.
/// Sources of the bounds: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
struct Arithmetic {
  enum class Form {
    difference,  ///< sum of (x - c)^2: the error is relative to the distance
    expanded,    ///< |x|^2 + |c|^2 - 2 x.c: the error is relative to (|x| + |c|)^2
    exact        ///< the label is that of the exact minimum, whatever the arithmetic on the way
  } form = Form::difference;
  double distance_roundoff = 0;   ///< unit roundoff u of the distances; 0: that of the element type
  double sum_roundoff = 0x1p-53;  ///< unit roundoff of the sums of points; the house rule is fp64 sums
};

}  // namespace ladder
