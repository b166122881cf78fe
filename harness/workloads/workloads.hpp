// The workloads of datasets/workloads.json: where their data is or why it is missing, and making one ready to run.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "contract/problem.hpp"

namespace ladder {

/// A named problem: data, K, initial centroids, element type, stop rule. Two records of one name can be compared.
struct Workload {
  std::string name, family, title;
  std::string type;  ///< f32 or f64
  int64_t n = 0, d = 0;
  int k = 0;
  Stop stop;
  Metric metric = Metric::euclidean;
  Kernel kernel;
  uint64_t seed = 1;                ///< of the initial centroids
  std::string source;               ///< where the data is from, in words
  std::filesystem::path points;     ///< .npy, n x d
  std::filesystem::path centroids;  ///< .npy, k x d; empty: random distinct points
  std::string csr;                  ///< stem of the files that hold the points as CSR rows (SparseFile); empty: dense
  nlohmann::json generator;         ///< how to make `points` where it does not exist; null: it is a file
  std::string missing;              ///< why this workload cannot run; empty where it can
  bool named = false;               ///< asked for by its full name: not to run it is a failure
  nlohmann::json image;             ///< {"height", "width"} where the points are pixels, else null
  // What is known once the data have been looked at (make_ready, or know):
  std::string made_by;                  ///< the generator's description; empty: not generated
  std::string data_hash;                ///< of the points' values
  std::string init_hash;                ///< of the initial centroids' values where they are a file, else empty
  int64_t nonzeros = -1;                ///< coordinates that are not zero; -1: not counted yet
  std::shared_ptr<const InUse> in_use;  ///< of generated points that are ready: no other process deletes them
};

/// Where converted and generated data is kept: LADDER_CACHE, or datasets/cache in the checkout.
std::filesystem::path cache_folder();

/// All workloads of datasets/workloads.json (or of LADDER_WORKLOADS_FILE), in its order.
std::vector<Workload> load_workloads();

/// The names of these workloads in the order in which they are tried for a variant whose lesson is to be
/// seen: its `lessons`, then the others.
std::vector<std::string> lesson_workloads();

/// A workload from a user's own file: NAME.npy, or what prepare.py made of sparse rows under that name. Throws Error
/// where file, K or initial centroids do not fit together.
Workload own_workload(const std::filesystem::path& points, int k, const std::filesystem::path& centroids,
                      const std::string& type, const Stop& stop, uint64_t seed);

/// Fills in what was found out about the points before (data_hash, nonzeros), without making them: from the cache, or
/// from `described`, an entry of a record that generated the same points. Is it enough to say what a run's rows are of?
bool know(Workload& workload, const nlohmann::json& described);

/// Makes data (generated, converted to the element type) and initial centroids exist as files; fills in the rest.
/// `scratch` is a folder that goes with the run. Returns what was done to a user's own file, in sentences. Throws Error
/// with the reason where the workload cannot run: NaN or infinity (naming row and column), K > N, a row without a
/// direction where the metric is cosine, a broken file.
std::vector<std::string> make_ready(Workload& workload, const std::filesystem::path& scratch);

/// Tells whether a file of a workload that is ready has changed: then the text differs from that of before.
std::string stamps_of(const Workload& workload);

/// Deletes generated points from the cache where no other process uses them; what is known of them is kept. `workload`
/// is as load_workloads gave it.
void delete_generated(const Workload& workload);

}  // namespace ladder
