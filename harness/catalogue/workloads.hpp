// The catalogue of workloads: which exist, where their data is or why it is missing, and making one ready to run.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contract/problem.hpp"

namespace ladder {

/// A named problem: data, K, initial centroids, element type, stop rule. Two records of one name can be compared.
struct Workload {
  std::string name, family, title;
  std::string type;  ///< f32 or f64
  int64_t n = 0, d = 0;
  int k = 0;
  Stop stop;
  uint64_t seed = 1;                ///< of the initial centroids
  std::string source;               ///< where the data is from, in words
  std::filesystem::path points;     ///< .npy, n x d
  std::filesystem::path centroids;  ///< .npy, k x d; empty: random distinct points
  nlohmann::json generator;         ///< how to make `points` where it does not exist; null: it is a file
  std::string missing;              ///< why this workload cannot run; empty where it can
  std::string data_hash;            ///< of the points' values; set by make_ready
  nlohmann::json image;             ///< {"height", "width"} where the points are pixels, else null
};

/// Where converted and generated data is kept: LADDER_CACHE, or datasets/cache in the checkout.
std::filesystem::path cache_folder();

/// All workloads of datasets/catalogue.json (or of LADDER_CATALOGUE), in its order.
std::vector<Workload> load_catalogue();

/// A workload from a user's own file. Throws Error where file, K or initial centroids do not fit together.
Workload own_workload(const std::filesystem::path& points, int k, const std::filesystem::path& centroids,
                      const std::string& type, const Stop& stop, uint64_t seed);

/// Makes data (generated, converted to the element type) and initial centroids exist as files; fills `points`,
/// `centroids` and `data_hash`. `scratch` is a folder that goes with the run. Throws Error with the reason where the
/// workload cannot run: NaN or infinity (naming row and column), K > N, a broken file.
void make_ready(Workload& workload, const std::filesystem::path& scratch);

}  // namespace ladder
