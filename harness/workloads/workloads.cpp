#include "workloads/workloads.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>

#include "base/files.hpp"
#include "base/folders.hpp"
#include "base/foreign.hpp"
#include "base/npy.hpp"
#include "formats/schema.hpp"
#include "workloads/generate.hpp"
#include "workloads/sparse.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json read_workloads(const fs::path& file) {
  json document = read_json(file);
  schema_named("workloads").need(document, file, "mend it, or check it out again");
  return document;
}

fs::path workloads_file() {
  const char* other = std::getenv("LADDER_WORKLOADS_FILE");
  return other && *other ? fs::path(other) : source_folder() / "datasets" / "workloads.json";
}

/// Facts about a large file that need a pass over it, kept beside it for as long as it does not change.
struct Facts {
  std::string stamp;    ///< size and time of the file that was looked at
  std::string made_by;  ///< the generator's description; empty: not generated
  std::string hash;
  std::string fault;  ///< why the values cannot be used; empty where they can
  int64_t nonzeros = -1;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Facts, stamp, made_by, hash, fault, nonzeros)

fs::path beside(const fs::path& points) { return points.string() + ".facts.json"; }

/// None where the file is not there, or holds something else: then they are found out again.
std::optional<Facts> read_facts(const fs::path& points) {
  if (!fs::exists(beside(points))) return std::nullopt;
  try {
    return read_json(beside(points)).get<Facts>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Size, time of the last write, and time of the last change of the file's data or attributes, which, unlike the other,
/// cannot be set. Empty where there is no such file.
std::string stamp_of(const fs::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return "";
  const auto nanoseconds = [](const timespec& t) { return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec; };
  return fmt::format("{} {} {}", found.st_size, nanoseconds(found.st_mtim), nanoseconds(found.st_ctim));
}

template <class T>
void examine(const NpyFile& file, const fs::path& name, Facts& facts) {
  const T* x = file.data<T>();
  const size_t n = file.rows(), d = file.columns();
  facts.hash = hash64(file.bytes(), file.byte_count());
  facts.nonzeros = int64_t(count_nonzero(x, n * d));
  if (const auto bad = find_nonfinite(x, n, d)) {
    facts.fault = fmt::format("{}: row {}, column {} is {}: k-means needs finite numbers, remove or replace it",
                              name.string(), bad->row, bad->column, std::isnan(bad->value) ? "NaN" : "infinite");
  }
}

/// `name` is what a fault calls the file.
Facts look_at(const NpyFile& file, const fs::path& name) {
  Facts facts;
  if (file.type() == ElementType::f32)
    examine<float>(file, name, facts);
  else
    examine<double>(file, name, facts);
  return facts;
}

/// The facts about a file of the cache: from beside it where they are still true, else found out and kept there.
Facts facts_of_cached(const NpyFile& file, const fs::path& path, const std::string& made_by) {
  const std::string stamp = stamp_of(path);
  if (const auto known = read_facts(path); known && known->stamp == stamp && known->made_by == made_by) return *known;
  Facts facts = look_at(file, path);
  facts.stamp = stamp;
  facts.made_by = made_by;
  write_whole(beside(path), json(facts).dump() + "\n");
  return facts;
}

/// The same values as another element type, in a new file.
template <class To, class From>
void convert(const NpyFile& from, const fs::path& to) {
  const From* x = from.data<From>();
  const std::vector<To> values(x, x + from.size());
  write_npy(to.string(), values.data(), from.shape());
}

/// The file itself where it holds `type`; else `to`, made here.
fs::path as_type(const fs::path& path, const NpyFile& file, const std::string& type, const fs::path& to) {
  const bool is_f32 = file.type() == ElementType::f32;
  if (is_f32 == (type == "f32")) return path;
  if (is_f32)
    convert<double, float>(file, to);
  else
    convert<float, double>(file, to);
  return to;
}

NpyFile open_matrix(const fs::path& path, NpyFile::Order accepted = NpyFile::Order::c) {
  NpyFile file(path.string(), accepted);
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

/// The file itself where it is in C order; else `to`, made here, and a sentence that says so.
fs::path in_c_order(const fs::path& path, const fs::path& to, std::vector<std::string>& done) {
  const NpyFile file = open_matrix(path, NpyFile::Order::any);
  if (!file.fortran_order()) return path;
  write_in_c_order(file, to.string());
  done.push_back(fmt::format("{} is in Fortran order: converted for this run", path.string()));
  return to;
}

ElementType element_type_of(const Workload& w) { return w.type == "f32" ? ElementType::f32 : ElementType::f64; }

/// The matrix that sparse rows are, as `dense`; the rows themselves as `rows` (a stem) where their type is another.
void make_dense(Workload& w, const fs::path& dense, const fs::path& rows) {
  const SparseFile file(w.csr, w.d);
  if (file.rows() != w.n)
    throw Error(fmt::format("{} holds {} rows, {} are expected: make its files again", w.csr, file.rows(), w.n));
  file.write_dense(dense, element_type_of(w));
  w.points = dense;
  if (file.type() == element_type_of(w)) return;
  file.write_as(rows.string(), element_type_of(w));
  w.csr = rows.string();
}

/// N and D of sparse rows of one's own, from the description beside them: the columns that a row may have are not in
/// the rows themselves.
std::pair<int64_t, int64_t> shape_beside(const fs::path& points) {
  const fs::path file = fs::path(points).replace_extension(".json");
  if (!fs::exists(file))
    throw Error(
        fmt::format("{} is not there, which tells how many columns the rows have: datasets/prepare.py convert "
                    "writes it beside them",
                    file.string()));
  const json described = read_json(file), shape = described.is_object() ? described.value("shape", json()) : json();
  const auto extent = [&](size_t axis) { return shape[axis].is_number_integer() ? shape[axis].get<int64_t>() : -1; };
  if (!shape.is_array() || shape.size() != 2 || std::min(extent(0), extent(1)) < 1 ||
      std::max(extent(0), extent(1)) > INT32_MAX)
    throw Error(fmt::format("{} has the shape {}: rows and columns are numbers from 1 to 2147483647", file.string(),
                            shape.dump()));
  return {extent(0), extent(1)};
}

template <class T>
void refuse_zero_rows(const NpyFile& file) {
  if (const int64_t row = find_zero_row(file.data<T>(), int64_t(file.rows()), int(file.columns())); row >= 0)
    refuse_zero_row(row);
}

/// Generates the points where the cache does not hold just these; one process at a time does.
void make_generated(Workload& w) {
  const auto there = [&] {
    const auto known = read_facts(w.points);
    return fs::exists(w.points) && known && known->made_by == w.made_by && known->stamp == stamp_of(w.points);
  };
  for (;;) {
    w.in_use = InUse::of(w.points);
    if (w.in_use && there()) return;
    const FileLock alone = FileLock::wait(w.points);
    if (there()) continue;  // another process has just made them
    generate(ladder::from_json(w.generator), w.points.string());
    facts_of_cached(NpyFile(w.points.string()), w.points, w.made_by);
  }
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

std::vector<std::string> lesson_workloads() {
  const json document = read_workloads(workloads_file());
  auto names = document.value("lessons", std::vector<std::string>());
  for (const json& workload : document.value("workloads", json::array())) {
    const std::string name = workload.value("name", "");
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

namespace {

/// Folders and files are called by these names.
bool in_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-'; }
bool begins_a_name(char c) { return in_a_name(c) && c != '_' && c != '.' && c != '-'; }

/// A name like that of a user's file.
std::string name_from(std::string stem) {
  std::replace_if(
      stem.begin(), stem.end(), [](char c) { return !in_a_name(c); }, '-');
  return begins_a_name(stem.front()) ? stem : "points" + stem;
}

void need_name(const std::string& name) {
  if (name.empty() || !begins_a_name(name[0]) || !std::all_of(name.begin(), name.end(), in_a_name))
    throw Error(
        fmt::format("'{}' is no name of a workload: letters, digits, '_', '.' and '-', a letter or digit first", name));
}

}  // namespace

std::vector<Workload> load_workloads() {
  const fs::path file = workloads_file();
  const json document = read_workloads(file);
  const fs::path cache = cache_folder();
  json reasons = json::object();
  if (fs::exists(cache / "missing.json")) reasons = read_json(cache / "missing.json");

  std::vector<Workload> workloads;
  try {
    for (const json& entry : document.at("workloads")) {
      Workload w;
      w.name = entry.at("name");
      need_name(w.name);
      w.family = entry.at("family");
      w.title = entry.value("title", w.name);
      w.type = entry.at("type");
      w.k = entry.at("k");
      w.stop = stop_rule(entry.at("stop"));
      w.metric = metric_named(entry.value("metric", "euclidean"));
      w.kernel = kernel_named(entry.value("kernel", "none"));
      w.seed = entry.at("seed");
      const std::string wanted = entry.at("source");
      const json* source = nullptr;
      for (const json& candidate : document.at("sources")) {
        if (candidate.at("name") == wanted) source = &candidate;
      }
      if (!source) throw Error(fmt::format("workload {} names the source '{}', which is not there", w.name, wanted));
      w.n = source->at("n");
      w.d = source->at("d");
      w.image = source->value("image", json());
      w.points = cache / (wanted + ".npy");
      if (source->at("kind") == "generator") {
        w.generator = *source;
        w.made_by = to_string(from_json(*source));
        w.source = fmt::format("generated: {}, seed {}", source->at("generator").get<std::string>(),
                               source->at("seed").get<uint64_t>());
      } else {
        w.source = source->value("title", wanted);
        if (source->value("csr", false)) w.csr = (cache / wanted).string();
        if (w.csr.empty() ? !fs::exists(w.points) : !SparseFile::exists(w.csr)) {
          w.missing = reasons.is_object() && reasons.value(wanted, json()).is_string()
                          ? reasons[wanted].get<std::string>()
                          : fmt::format("not prepared yet: run datasets/prepare.py '{}'", w.name);
        }
      }
      workloads.push_back(std::move(w));
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file.string(), error.what()));
  }
  return workloads;
}

Workload own_workload(const fs::path& points, int k, const fs::path& centroids, const std::string& type,
                      const Stop& stop, uint64_t seed) {
  Workload w;
  w.name = w.family = name_from(points.stem().string());
  w.title = points.filename().string();
  w.source = "a file of one's own: " + points.filename().string();
  w.points = fs::absolute(points);
  const auto type_of = [&](ElementType held) {
    return !type.empty() ? type : held == ElementType::f32 ? "f32" : "f64";
  };
  const std::string stem = fs::path(w.points).replace_extension().string();
  if (!fs::exists(points) && SparseFile::exists(stem)) {
    std::tie(w.n, w.d) = shape_beside(w.points);
    w.csr = stem;
    w.type = type_of(SparseFile(stem, w.d).type());
  } else {
    const NpyFile file = open_matrix(points, NpyFile::Order::any);
    w.n = int64_t(file.rows());
    w.d = int64_t(file.columns());
    w.type = type_of(file.type());
  }
  w.k = k;
  w.stop = stop;
  w.seed = seed;
  if (!centroids.empty()) {
    const NpyFile initial = open_matrix(centroids, NpyFile::Order::any);
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

bool know(Workload& w, const json& described) {
  if (w.generator.is_null()) {
    if (w.points.parent_path() != cache_folder() || !fs::exists(w.points)) return false;
    const auto known = read_facts(w.points);
    if (!known || known->stamp != stamp_of(w.points)) return false;
    w.data_hash = known->hash;
    w.nonzeros = known->nonzeros;
    return true;
  }
  if (const auto known = read_facts(w.points); known && known->made_by == w.made_by) {
    w.data_hash = known->hash;
    w.nonzeros = known->nonzeros;
    return true;
  }
  if (described.is_object() && described.value("made_by", json()) == w.made_by) {
    w.data_hash = described.at("data_hash");
    w.nonzeros = described.at("nonzeros").is_null() ? -1 : described.at("nonzeros").get<int64_t>();
    return true;
  }
  return false;
}

std::vector<std::string> make_ready(Workload& w, const fs::path& scratch) {
  if (!w.missing.empty()) throw Error(w.missing);
  if (w.k > w.n) {
    throw Error(fmt::format("K = {} is more than N = {} points: choose K of at most {}", w.k, w.n, w.n));
  }
  std::vector<std::string> done;
  // Names of this workload's own, whatever its files are called.
  const auto own_file = [&](const char* what) { return scratch / fmt::format("{}.{}.npy", w.name, what); };
  const bool in_cache = w.points.parent_path() == cache_folder();
  const fs::path given = w.csr.empty() ? w.points : fs::path(w.csr);
  if (!w.generator.is_null()) make_generated(w);
  if (!w.csr.empty()) make_dense(w, own_file("points"), scratch / fmt::format("{}.rows", w.name));
  w.points = in_c_order(w.points, own_file("points.c_order"), done);
  {
    const NpyFile file = open_matrix(w.points);
    if (int64_t(file.rows()) != w.n || int64_t(file.columns()) != w.d) {
      throw Error(fmt::format("{} is {} x {}, workloads.json says {} x {}: delete it, it will be made anew",
                              w.points.string(), file.rows(), file.columns(), w.n, w.d));
    }
    const Facts facts = in_cache && w.csr.empty() ? facts_of_cached(file, w.points, w.made_by) : look_at(file, given);
    if (!facts.fault.empty()) throw Error(facts.fault);
    w.data_hash = facts.hash;
    w.nonzeros = facts.nonzeros;
    w.points = as_type(w.points, file, w.type, own_file("points"));
  }
  const NpyFile points = open_matrix(w.points);
  if (w.metric == Metric::cosine) w.type == "f32" ? refuse_zero_rows<float>(points) : refuse_zero_rows<double>(points);
  if (w.centroids.empty()) {
    w.centroids = own_file("initial_centroids");
    if (w.type == "f32")
      write_initial_centroids<float>(w, points, w.centroids);
    else
      write_initial_centroids<double>(w, points, w.centroids);
  } else {
    const fs::path given_centroids = w.centroids;
    w.centroids = in_c_order(given_centroids, own_file("initial_centroids.c_order"), done);
    const NpyFile initial = open_matrix(w.centroids);
    const Facts facts = look_at(initial, given_centroids);
    if (!facts.fault.empty()) throw Error(facts.fault);
    w.init_hash = facts.hash;
    w.centroids = as_type(w.centroids, initial, w.type, own_file("initial_centroids"));
  }
  return done;
}

std::string stamps_of(const Workload& w) {
  std::vector<fs::path> files = {w.points, w.centroids};
  if (!w.csr.empty()) {
    for (const char* part : {"row_begin", "column", "value"}) files.push_back(fmt::format("{}.{}.npy", w.csr, part));
  }
  std::string stamps;
  for (const fs::path& file : files) stamps += stamp_of(file) + "\n";
  return stamps;
}

void delete_generated(const Workload& w) {
  if (!w.generator.is_null()) remove_unused(cache_folder() / w.points.filename());
}

}  // namespace ladder
