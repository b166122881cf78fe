// Points and initial centroids drawn from a seed: the same bits on every machine and with any number of threads, since
// each value is a function of (seed, row, column) alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

/// What to draw: n x d float32 points.
///   Kind::blobs      a random cluster for each point, its centre uniform in [-10, 10]^d, plus `spread` times a
///                    standard normal (as scikit-learn's make_blobs); then each value becomes zero with probability
///                    `zeros`
///   Kind::lowrank    like embeddings: A z + noise * e, where A is d x rank of normals of variance 1 / rank, the same
///                    for all points, and z and e are standard normal: all variance but noise^2 lies in `rank`
///                    directions. With `decay` the r-th of them has a share of it that is proportional to r^-decay
///   Kind::spectrum   normal, with the variances along d orthogonal directions that `variances` tells: pairs of a rank
///                    from 1 to d and the share of that direction, of some measured spectrum. Shares between two ranks
///                    lie on a line of their logarithms, and all are scaled so that a coordinate has variance 1
///   Kind::isotropic  standard normal in all directions: the hardest case for every bound on distances
///   Kind::classes    a random class for each point, uniform in that class's unit cube: the cubes are cells of a grid
///                    (the smallest that holds them all), each a unit away from the next
/// With `outlier` = s > 0 the row in the middle, n / 2, is multiplied by 2^s: one row that is that much longer. With
/// `halves` every value is rounded to the nearest number that fp16 holds, ties to even.
struct GeneratorSpec {
  enum class Kind { blobs, lowrank, isotropic, classes, spectrum } kind = Kind::blobs;
  size_t n = 0, d = 0;
  uint64_t seed = 0;
  int clusters = 10;                                   ///< blobs
  double spread = 1;                                   ///< blobs
  double zeros = 0;                                    ///< blobs: the share of zeros, in [0, 1)
  int rank = 30;                                       ///< lowrank
  double noise = 0.1;                                  ///< lowrank
  double decay = 0;                                    ///< lowrank
  int classes = 5;                                     ///< classes
  std::vector<std::pair<int, double>> variances = {};  ///< spectrum
  int outlier = 0;                                     ///< 0 to 100
  bool halves = false;
};

/// From a source in workloads.json:
///   {"generator": "blobs", "n": 1000, "d": 100, "seed": 1, "parameters": {"clusters": 10, "spread": 1, "zeros": 0.9}}
///   {"generator": "embedding", ..., "parameters": {"flavour": "lowrank", "rank": 30, "noise": 0.1}}
///   {"generator": "classes", ..., "parameters": {"classes": 5}}
/// Flavours of embedding are lowrank (rank, noise, decay), spectrum (variances, as [[1, 0.13], ..., [d, 0.0003]]),
/// isotropic (no parameters) and blobs (clusters, spread). All know "outlier": 12 and "halves": true. Parameters left
/// out have GeneratorSpec's values; one that the generator does not have is an Error. Other keys of the entry are not
/// looked at.
GeneratorSpec from_json(const nlohmann::json& entry);

/// The description as text: equal texts, equal points, down to the last bit.
std::string to_string(const GeneratorSpec& spec);

/// Draws points row by row.
class PointGenerator {
 public:
  /// Throws Error where the description makes no sense.
  explicit PointGenerator(const GeneratorSpec& spec);
  /// Rows [begin, end) to out ((end - begin) x d), on this thread. Any division into ranges gives the same values.
  void rows(size_t begin, size_t end, float* out) const;

 private:
  void blob_row(size_t row, float* out) const;
  void class_row(size_t row, float* out) const;
  void lowrank_row(size_t row, float* out, std::vector<double>& latent, std::vector<double>& sum) const;

  GeneratorSpec spec_;
  std::vector<double> centres_;  ///< blobs: clusters x d
  std::vector<double> mixing_;   ///< lowrank: rank x d, A transposed
  std::vector<double> corners_;  ///< classes: classes x d, of their cubes
};

/// Writes the points to a .npy file, on all cores; the file may be larger than memory.
void generate(const GeneratorSpec& spec, const std::string& path);

/// Centroids to start from, and the rows of the points that they are.
template <class T>
struct InitialCentroids {
  std::vector<T> centroids;  ///< k x d, row-major
  std::vector<int32_t> row;  ///< k, all different
};

/// k random distinct points of points (n x d): rows in the order of a shuffle, leaving out those that equal one already
/// taken (0.0 equals -0.0). Only where fewer than k distinct points exist do equal ones fill the rest, at the end.
template <class T>
InitialCentroids<T> initial_centroids(const T* points, int n, int d, int k, uint64_t seed);

}  // namespace ladder
