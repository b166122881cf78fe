// A k-means problem, its stop rule, and the precision that a variant declares. Host only: needs no CUDA.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "../base/error.hpp"

namespace ladder {

// ---------------------------------------------------------------------------------------------- what is to be solved

/// The distance. `cosine` is spherical k-means: only the directions of points and centroids count, the distance is 1 -
/// x.c / (|x| |c|), and a new centroid is the mean of its points' directions, scaled to unit length.
enum class Metric { euclidean, cosine };
const char* to_string(Metric metric);
/// Throws Error if the name is neither of the two.
Metric metric_named(const std::string& name);
/// Throws an Error that names a row of zeros, which has no direction and cannot be used with the metric cosine.
[[noreturn]] void refuse_zero_row(int64_t row);

/// Kernel k-means: k(x, y) is the scalar product of the images of two points in a space whose coordinates are never
/// computed. Means have no coordinates, so a solution is its labels. In the first iteration the means are the images of
/// the initial centroids; later the mean of a cluster is that of its points' images. A cluster without points has no
/// mean and gets no points in any later iteration. Ties go to the lowest index. `none`: ordinary k-means.
struct Kernel {
  enum class Form { none, linear, polynomial, gaussian } form = Form::none;
  double gamma = 1;  ///< polynomial: (gamma x.y + offset)^degree; gaussian: exp(-gamma |x - y|^2)
  double offset = 0;
  int degree = 2;
  explicit operator bool() const { return form != Form::none; }
};
/// "none", "linear", "polynomial:GAMMA,OFFSET,DEGREE", "gaussian:GAMMA".
std::string to_string(const Kernel& kernel);
/// The inverse of to_string; throws Error with the grammar if the text does not match it.
Kernel kernel_named(const std::string& text);

/// When a solve ends. `reassigned`: when at most `fraction` * N labels changed in an iteration; `exact`: when none did;
/// `fixed`: after `iterations`. Every rule also ends after `max_iterations`.
struct Stop {
  enum class Rule { reassigned, exact, fixed } rule = Rule::exact;
  double fraction = 0;
  int iterations = 0;
  int max_iterations = 300;
  /// Whether a solve ends after `done` iterations if the last one changed `reassigned` of n labels.
  constexpr bool reached(int done, int64_t reassigned, int64_t n) const {
    if (done >= max_iterations) return true;
    if (rule == Rule::fixed) return done >= iterations;
    return double(reassigned) <= (rule == Rule::exact ? 0.0 : fraction * double(n));
  }
};

/// "exact", "reassigned:0.01", "fixed:10".
std::string to_string(const Stop& stop);
/// The inverse of to_string; throws Error with the grammar if the text does not match it.
Stop stop_rule(const std::string& text);

/// How `initialise` draws centroids. validation/initialise.hpp defines which random number picks which row.
enum class Draws {
  nothing,   ///< the variant has no such phase
  uniform,   ///< k distinct points, the same as the harness draws
  kmeanspp,  ///< k-means++: probability in proportion to the squared distance to the nearest centroid drawn so far
  afkmc2     ///< AFK-MC2: a Markov chain that approximates k-means++
};

/// What a variant's `refuse` gets: sizes, no data.
struct Shape {
  int n = 0, k = 0, d = 0;
  size_t element_bytes = 4;  ///< 4: float, 8: double
  int64_t nnz = -1;          ///< stored entries if the points are given as CSR rows, too; otherwise -1
  Metric metric = Metric::euclidean;
  Kernel kernel;
  Stop stop;
  bool sparse() const { return nnz >= 0; }
};

/// Points as compressed sparse rows: row i has the entries [row_begin[i], row_begin[i + 1]).
template <class T>
struct Csr {
  const int64_t* row_begin = nullptr;  ///< n + 1
  const int32_t* column = nullptr;     ///< one per stored entry, ascending within a row
  const T* value = nullptr;
};

/// A problem in read-only host memory (it may be a mapped file).
template <class T>
struct Problem : Shape {
  const T* points = nullptr;     ///< n x d, row-major; also if there are CSR rows, for validation
  Csr<T> csr;                    ///< the same points, if sparse()
  const T* centroids = nullptr;  ///< k x d, the initial centroids; in each timed sample others, or in another order
  uint64_t seed = 1;             ///< for `initialise`
};

// ----------------------------------------------------------------------------------------------- where, how exactly

/// `cuda`: a GPU. `simt`: the CPU device of harness/simt, which runs the same .cu text. `cpu`: native host code.
enum class DeviceKind { cuda, simt, cpu };
const char* to_string(DeviceKind kind);
/// Throws Error if the name is none of the three.
DeviceKind device_kind(const std::string& name);

/// How a variant computes distances and sums; validation derives the allowed error from it.
/// Sources of the bounds: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
struct Arithmetic {
  enum class Form {
    difference,  ///< sum of (x - c)^2: the error is relative to the distance
    expanded,    ///< |x|^2 + |c|^2 - 2 x.c: the error is relative to (|x| + |c|)^2
    exact        ///< the label is that of the exact minimum, whatever arithmetic led to it
  } form = Form::difference;
  double distance_roundoff = 0;   ///< unit roundoff of the sums of distances; 0: that of the element type
  double input_roundoff = 0;      ///< of points and centroids, if they are rounded first (2^-11: half); 0: they are not
  double sum_roundoff = 0x1p-53;  ///< unit roundoff of the sums of points; by default fp64
  const char* operands = "";      ///< of the products that distances are made of: fp16, tf32, int8, or own, the element
                                  ///< type. Empty: own, or, where points are rounded or the form is exact, not told
  bool centred = false;  ///< the points' mean is subtracted from points and centroids first, and added back at the end
};

}  // namespace ladder
