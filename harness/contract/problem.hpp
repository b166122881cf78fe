// What a k-means problem is, and how exactly it is to be solved. Host only: needs no CUDA.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "../base/error.hpp"

namespace ladder {

// ---------------------------------------------------------------------------------------------- what is to be solved

/// What "near" means. `cosine` is spherical k-means: points and centroids count by their directions alone, the distance
/// is 1 - x.c / (|x| |c|), and a new centroid is the mean of its points' directions, made unit length.
enum class Metric { euclidean, cosine };
const char* to_string(Metric metric);
/// Throws Error where the name is none of the two.
Metric metric_named(const std::string& name);
/// Throws the Error that names a row of points without a direction, which the metric cosine cannot take.
[[noreturn]] void refuse_zero_row(int64_t row);

/// Kernel k-means: the function k(x, y) that stands for the scalar product of the points' images in a space that nobody
/// enters. Its means have no coordinates; a solution is its labels. In the first iteration the images of the initial
/// centroids are the means; later a cluster's mean is that of its points' images, and one without points has none: it
/// takes no points in the next iteration, nor ever again. Ties go to the lowest index. `none`: ordinary k-means.
struct Kernel {
  enum class Form { none, linear, polynomial, gaussian } form = Form::none;
  double gamma = 1;  ///< polynomial: (gamma x.y + offset)^degree; gaussian: exp(-gamma |x - y|^2)
  double offset = 0;
  int degree = 2;
  explicit operator bool() const { return form != Form::none; }
};
/// "none", "linear", "polynomial:GAMMA,OFFSET,DEGREE", "gaussian:GAMMA".
std::string to_string(const Kernel& kernel);
/// The inverse; throws Error with the grammar where the text is none.
Kernel kernel_named(const std::string& text);

/// When a solve ends. `reassigned`: when at most `fraction` * N labels changed in an iteration; `exact`: when none did;
/// `fixed`: after `iterations`. Every rule also ends after `max_iterations`.
struct Stop {
  enum class Rule { reassigned, exact, fixed } rule = Rule::exact;
  double fraction = 0;
  int iterations = 0;
  int max_iterations = 300;
  /// Does a solve end after `done` iterations, the last of which changed `reassigned` of n labels?
  constexpr bool reached(int done, int64_t reassigned, int64_t n) const {
    if (done >= max_iterations) return true;
    if (rule == Rule::fixed) return done >= iterations;
    return double(reassigned) <= (rule == Rule::exact ? 0.0 : fraction * double(n));
  }
};

/// "exact", "reassigned:0.01", "fixed:10".
std::string to_string(const Stop& stop);
/// The inverse; throws Error with the rule's grammar where the text is not one.
Stop stop_rule(const std::string& text);

/// How `initialise` draws its centroids. Which number picks which row: validation/initialise.hpp.
enum class Draws {
  nothing,   ///< there is no such phase
  uniform,   ///< k random distinct points: those of the harness's own draw
  kmeanspp,  ///< k-means++: each with a chance in proportion to its squared distance to the nearest one drawn before
  afkmc2     ///< a Markov chain in the place of that chance
};

/// What a variant may look at before it agrees to run: sizes, not data.
struct Shape {
  int n = 0, k = 0, d = 0;
  size_t element_bytes = 4;  ///< 4: float, 8: double
  int64_t nnz = -1;          ///< stored entries, where the points are given as CSR rows too; else -1
  Metric metric = Metric::euclidean;
  Kernel kernel;
  Stop stop;
  bool sparse() const { return nnz >= 0; }
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
  const T* points = nullptr;     ///< n x d, row-major; beside CSR rows too: validation reads them
  Csr<T> csr;                    ///< the same points, where sparse()
  const T* centroids = nullptr;  ///< k x d, the initial centroids; in each timed sample in another order
  uint64_t seed = 1;             ///< of what `initialise` draws
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
  double distance_roundoff = 0;  ///< unit roundoff u in which distances are added up; 0: that of the element type
  double input_roundoff = 0;     ///< of points and centroids, where they are rounded once before (2^-11: half); 0: none
  double sum_roundoff = 0x1p-53;  ///< unit roundoff of the sums of points; the house rule is fp64 sums
  bool centred = false;  ///< the points' mean is taken from points and centroids first, and added to these at the end
};

}  // namespace ladder
