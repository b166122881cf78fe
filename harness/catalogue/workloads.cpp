#include "catalogue/workloads.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "base/npy.hpp"
#include "catalogue/generate.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json read_json(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw Error(fmt::format("{} cannot be read: is the checkout complete?", file.string()));
  try {
    return json::parse(in);
  } catch (const json::exception& error) {
    throw Error(fmt::format("{} is not JSON: {}", file.string(), error.what()));
  }
}

fs::path source_folder() { return LADDER_SOURCE_DIR; }

/// Facts about a large file that need a pass over it, kept beside it for as long as it does not change.
struct Facts {
  std::string hash;
  std::string fault;  ///< why the values cannot be used; empty where they can
};

template <class T>
Facts examine(const NpyFile& file, const fs::path& name) {
  const T* x = file.data<T>();
  const size_t n = file.rows(), d = file.columns();
  Facts facts{.hash = hash64(file.bytes(), file.byte_count()), .fault = {}};
  if (const auto bad = find_nonfinite(x, n, d)) {
    facts.fault = fmt::format("{}: row {}, column {} is {}: k-means needs finite numbers, remove or replace it",
                              name.string(), bad->row, bad->column, std::isnan(bad->value) ? "NaN" : "infinite");
  }
  return facts;
}

Facts facts_of(const NpyFile& file, const fs::path& path, bool keep) {
  const std::string stamp =
      fmt::format("{} {}", fs::file_size(path), fs::last_write_time(path).time_since_epoch().count());
  const fs::path beside = path.string() + ".facts.json";
  if (keep && fs::exists(beside)) {
    const json known = json::parse(std::ifstream(beside), nullptr, false);
    if (known.is_object() && known.value("stamp", "") == stamp)
      return {known.value("hash", ""), known.value("fault", "")};
  }
  const Facts facts = file.type() == ElementType::f32 ? examine<float>(file, path) : examine<double>(file, path);
  if (keep) {
    const fs::path part = beside.string() + ".part";
    std::ofstream(part) << json{{"stamp", stamp}, {"hash", facts.hash}, {"fault", facts.fault}}.dump() << "\n";
    fs::rename(part, beside);
  }
  return facts;
}

/// The same values as another element type, in a new file.
template <class To, class From>
void convert(const NpyFile& from, const fs::path& to) {
  const From* x = from.data<From>();
  const std::vector<To> values(x, x + from.size());
  write_npy(to.string(), values.data(), from.shape());
}

fs::path as_type(const fs::path& path, const NpyFile& file, const std::string& type, const fs::path& scratch) {
  const bool is_f32 = file.type() == ElementType::f32;
  if (is_f32 == (type == "f32")) return path;
  const fs::path to = scratch / (path.stem().string() + "." + type + ".npy");
  if (is_f32)
    convert<double, float>(file, to);
  else
    convert<float, double>(file, to);
  return to;
}

NpyFile open_matrix(const fs::path& path) {
  NpyFile file(path.string());
  if (file.type() != ElementType::f32 && file.type() != ElementType::f64) {
    throw Error(fmt::format("{} does not hold floating-point numbers: save it as float32 or float64", path.string()));
  }
  if (file.rows() < 1 || file.columns() < 1) {
    throw Error(fmt::format("{} is empty ({} x {}): at least one point with one feature is needed", path.string(),
                            file.rows(), file.columns()));
  }
  if (file.rows() > INT32_MAX || file.columns() > INT32_MAX) {
    throw Error(fmt::format("{} is {} x {}: at most 2147483647 points and features are supported", path.string(),
                            file.rows(), file.columns()));
  }
  return file;
}

template <class T>
void write_initial_centroids(const Workload& w, const NpyFile& points, const fs::path& to) {
  const auto chosen = initial_centroids(points.data<T>(), int(w.n), int(w.d), w.k, w.seed);
  write_npy(to.string(), chosen.centroids.data(), {size_t(w.k), size_t(w.d)});
}

}  // namespace

fs::path cache_folder() {
  if (const char* folder = std::getenv("LADDER_CACHE"); folder && *folder) return folder;
  return source_folder() / "datasets" / "cache";
}

std::vector<Workload> load_catalogue() {
  const char* other = std::getenv("LADDER_CATALOGUE");
  const fs::path file = other && *other ? fs::path(other) : source_folder() / "datasets" / "catalogue.json";
  const json catalogue = read_json(file);
  const fs::path cache = cache_folder();
  json reasons = json::object();
  if (fs::exists(cache / "missing.json")) reasons = json::parse(std::ifstream(cache / "missing.json"), nullptr, false);

  std::vector<Workload> workloads;
  try {
    for (const json& entry : catalogue.at("workloads")) {
      Workload w;
      w.name = entry.at("name");
      w.family = entry.at("family");
      w.title = entry.value("title", w.name);
      w.type = entry.at("type");
      w.k = entry.at("k");
      w.stop = stop_rule(entry.at("stop"));
      w.seed = entry.at("seed");
      const std::string wanted = entry.at("source");
      const json* source = nullptr;
      for (const json& candidate : catalogue.at("sources")) {
        if (candidate.at("name") == wanted) source = &candidate;
      }
      if (!source) throw Error(fmt::format("workload {} names the source '{}', which is not there", w.name, wanted));
      w.n = source->at("n");
      w.d = source->at("d");
      w.image = source->value("image", json());
      w.points = cache / (wanted + ".npy");
      if (source->at("kind") == "generator") {
        w.generator = *source;
        w.source = fmt::format("generated: {}, seed {}", source->at("generator").get<std::string>(),
                               source->at("seed").get<uint64_t>());
      } else {
        w.source = source->value("title", wanted);
        if (!fs::exists(w.points)) {
          w.missing = reasons.is_object() && reasons.contains(wanted)
                          ? reasons[wanted].get<std::string>()
                          : fmt::format("not prepared yet: run datasets/prepare.py '{}'", w.name);
        }
      }
      workloads.push_back(std::move(w));
    }
  } catch (const json::exception& error) {
    throw Error(fmt::format("{}: {}", file.string(), error.what()));
  }
  return workloads;
}

Workload own_workload(const fs::path& points, int k, const fs::path& centroids, const std::string& type,
                      const Stop& stop, uint64_t seed) {
  const NpyFile file = open_matrix(points);
  Workload w;
  w.name = w.family = points.stem().string();
  w.title = points.filename().string();
  w.source = "a file of one's own: " + points.filename().string();
  w.type = !type.empty() ? type : file.type() == ElementType::f32 ? "f32" : "f64";
  w.n = int64_t(file.rows());
  w.d = int64_t(file.columns());
  w.k = k;
  w.stop = stop;
  w.seed = seed;
  w.points = fs::absolute(points);
  if (!centroids.empty()) {
    const NpyFile initial = open_matrix(centroids);
    if (k > 0 && int64_t(initial.rows()) != k) {
      throw Error(
          fmt::format("{} holds {} centroids, --k says {}: make them agree", centroids.string(), initial.rows(), k));
    }
    if (int64_t(initial.columns()) != w.d) {
      throw Error(fmt::format("{} has {} features, {} has {}: they must be the same", centroids.string(),
                              initial.columns(), points.string(), w.d));
    }
    w.k = int(initial.rows());
    w.centroids = fs::absolute(centroids);
  }
  if (w.k < 1) throw Error(fmt::format("K = {}: give the number of clusters, --k K with K >= 1", w.k));
  return w;
}

void make_ready(Workload& w, const fs::path& scratch) {
  if (!w.missing.empty()) throw Error(w.missing);
  if (w.k > w.n) {
    throw Error(fmt::format("K = {} is more than N = {} points: choose K of at most {}", w.k, w.n, w.n));
  }
  const bool in_cache = w.points.parent_path() == cache_folder();
  if (!w.generator.is_null() && !fs::exists(w.points)) {
    fs::create_directories(w.points.parent_path());
    generate(from_json(w.generator), w.points.string());
  }
  {
    const NpyFile file = open_matrix(w.points);
    if (int64_t(file.rows()) != w.n || int64_t(file.columns()) != w.d) {
      throw Error(fmt::format("{} is {} x {}, the catalogue says {} x {}: delete it, it will be made anew",
                              w.points.string(), file.rows(), file.columns(), w.n, w.d));
    }
    const Facts facts = facts_of(file, w.points, in_cache);
    if (!facts.fault.empty()) throw Error(facts.fault);
    w.data_hash = facts.hash;
    w.points = as_type(w.points, file, w.type, scratch);
  }
  const NpyFile points = open_matrix(w.points);
  if (w.centroids.empty()) {
    w.centroids = scratch / (w.name + ".initial_centroids.npy");
    if (w.type == "f32")
      write_initial_centroids<float>(w, points, w.centroids);
    else
      write_initial_centroids<double>(w, points, w.centroids);
  } else {
    const NpyFile initial = open_matrix(w.centroids);
    const Facts facts = facts_of(initial, w.centroids, false);
    if (!facts.fault.empty()) throw Error(facts.fault);
    w.centroids = as_type(w.centroids, initial, w.type, scratch);
  }
}

}  // namespace ladder
