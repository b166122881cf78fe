#include "workloads/generate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <unordered_set>

#include "base/npy.hpp"
#include "base/parallel.hpp"
#include "base/philox.hpp"

#ifdef __FAST_MATH__
#error "generate.cpp promises the same bits everywhere: compile it without -ffast-math"
#endif

namespace ladder {
namespace {

using Kind = GeneratorSpec::Kind;

/// A member of a JSON object as the type that `is` tests for, or an Error that says what was found.
template <class T, class Test>
T member(const nlohmann::json& object, const std::string& key, const std::string& where, const std::string& wanted,
         Test is) {
  if (!object.contains(key)) throw Error(where + " lacks '" + key + "': give " + wanted);
  const auto& value = object.at(key);
  if (!std::invoke(is, value)) throw Error(where + " has '" + key + "' " + value.dump() + ": give " + wanted);
  return value.template get<T>();
}

size_t natural(const nlohmann::json& object, const std::string& key, const std::string& where) {
  return member<size_t>(object, key, where, "a natural number", &nlohmann::json::is_number_unsigned);
}

/// The number that fp16 holds nearest to `value`, ties to even; what is too large becomes the largest, 65,504.
float nearest_half(float value) {
  const int exponent = value == 0 ? -14 : std::max(std::ilogb(value), -14);  // below 2^-14 halves are subnormal
  const float rounded = std::scalbn(std::nearbyint(std::scalbn(value, 10 - exponent)), exponent - 10);
  return std::clamp(rounded, -65504.0f, 65504.0f);
}

bool pairs_of_numbers(const nlohmann::json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const nlohmann::json& pair) {
           return pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number();
         });
}

/// Of the d directions of a spectrum, in their order.
std::vector<double> shares_of(const GeneratorSpec& spec) {
  const auto& told = spec.variances;
  const std::string advice = ": give pairs of a rank and its share above 0, with ranks that rise from 1 to " +
                             std::to_string(spec.d) + ", the number of features";
  if (told.empty() || told.front().first != 1 || told.back().first != int64_t(spec.d))
    throw Error("a generator's variances do not begin at rank 1 and end at the last" + advice);
  std::vector<double> shares(spec.d);
  for (size_t i = 0; i < told.size(); ++i) {
    const auto [rank, share] = told[i];
    if (!(share > 0 && std::isfinite(share)) || (i > 0 && rank <= told[i - 1].first))
      throw Error("a generator's variances have the pair " + std::to_string(rank) + ", " + std::to_string(share) +
                  advice);
    shares[rank - 1] = share;
    if (i == 0) continue;
    const auto [before, from] = told[i - 1];
    const double steepness = std::log(share / from) / std::log(double(rank) / before);
    for (int r = before + 1; r < rank; ++r) shares[r - 1] = from * std::pow(double(r) / before, steepness);
  }
  return shares;
}

/// d orthogonal rows of length 1, by Gram and Schmidt from random ones; twice, as rounding takes the first time's
/// orthogonality away.
std::vector<double> orthogonal_rows(uint64_t seed, size_t d) {
  std::vector<double> rows(d * d);
  const auto dot = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t f = 0; f < d; ++f) sum += rows[a * d + f] * rows[b * d + f];
    return sum;
  };
  for (size_t r = 0; r < d; ++r) {
    normals(seed, Stream::mixing, uint32_t(r), d, &rows[r * d]);
    for (int time = 0; time < 2; ++time) {
      for (size_t before = 0; before < r; ++before) {
        const double along = dot(r, before);
        for (size_t f = 0; f < d; ++f) rows[r * d + f] -= along * rows[before * d + f];
      }
      const double length = std::sqrt(dot(r, r));
      for (size_t f = 0; f < d; ++f) rows[r * d + f] /= length;
    }
  }
  return rows;
}

}  // namespace

GeneratorSpec from_json(const nlohmann::json& entry) {
  if (!entry.is_object()) throw Error("a generator's entry is " + entry.dump() + ": give an object");
  const auto text = &nlohmann::json::is_string;
  const auto name = member<std::string>(entry, "generator", "a generator's entry", "blobs, embedding or classes", text);
  const std::string where = "generator '" + name + "'";
  const auto parameters = entry.value("parameters", nlohmann::json::object());
  if (!parameters.is_object()) throw Error(where + " has parameters " + parameters.dump() + ": give an object");

  GeneratorSpec spec;
  spec.n = natural(entry, "n", where);
  spec.d = natural(entry, "d", where);
  spec.seed = natural(entry, "seed", where);
  std::set<std::string> known;
  if (name == "blobs") {
    known = {"clusters", "spread", "zeros"};
  } else if (name == "classes") {
    spec.kind = Kind::classes;
    known = {"classes"};
  } else if (name == "embedding") {
    const auto flavour =
        member<std::string>(parameters, "flavour", where, "lowrank, spectrum, isotropic or blobs", text);
    if (flavour == "lowrank") {
      spec.kind = Kind::lowrank;
      known = {"flavour", "rank", "noise", "decay"};
    } else if (flavour == "spectrum") {
      spec.kind = Kind::spectrum;
      known = {"flavour", "variances"};
      spec.variances = member<std::vector<std::pair<int, double>>>(
          parameters, "variances", where, "pairs of a rank and its share, as [[1, 0.5], [8, 0.01]]", pairs_of_numbers);
    } else if (flavour == "isotropic") {
      spec.kind = Kind::isotropic;
      known = {"flavour"};
    } else if (flavour == "blobs") {
      known = {"flavour", "clusters", "spread"};
    } else {
      throw Error(where + " has no flavour '" + flavour + "': give lowrank, spectrum, isotropic or blobs");
    }
  } else {
    throw Error("there is no generator '" + name + "': give blobs, embedding or classes");
  }
  known.insert({"halves", "outlier"});
  for (const auto& [key, value] : parameters.items()) {
    if (!known.contains(key)) {
      std::string list;
      for (const auto& k : known) list += (list.empty() ? "" : ", ") + k;
      throw Error(where + " has no parameter '" + key + "' here: it knows " + list);
    }
    if (key == "flavour" || key == "variances") continue;
    if (key == "halves") {
      spec.halves = member<bool>(parameters, key, where, "true or false", &nlohmann::json::is_boolean);
      continue;
    }
    if (key == "outlier") {
      const size_t exponent = natural(parameters, key, where);
      if (exponent > 100) throw Error(where + " has outlier " + std::to_string(exponent) + ": give 0 to 100");
      spec.outlier = int(exponent);
      continue;
    }
    if (key == "clusters" || key == "rank" || key == "classes") {
      const size_t count = natural(parameters, key, where);
      if (count < 1 || count > 1000000)
        throw Error(where + " has " + key + " " + std::to_string(count) + ": give 1 to 1000000");
      (key == "rank" ? spec.rank : key == "classes" ? spec.classes : spec.clusters) = int(count);
    } else {
      double& target = key == "spread"  ? spec.spread
                       : key == "zeros" ? spec.zeros
                       : key == "decay" ? spec.decay
                                        : spec.noise;
      target = member<double>(parameters, key, where, "a number", &nlohmann::json::is_number);
    }
  }
  return spec;
}

std::string to_string(const GeneratorSpec& spec) {
  constexpr int version = 1;  // raised when the same description would give other points
  static const char* const kinds[] = {"blobs", "lowrank", "isotropic", "classes", "spectrum"};
  nlohmann::json text = {
      {"version", version}, {"kind", kinds[int(spec.kind)]}, {"n", spec.n}, {"d", spec.d}, {"seed", spec.seed}};
  if (spec.kind == Kind::blobs)
    text.update({{"clusters", spec.clusters}, {"spread", spec.spread}, {"zeros", spec.zeros}});
  if (spec.kind == Kind::lowrank) text.update({{"rank", spec.rank}, {"noise", spec.noise}});
  if (spec.kind == Kind::lowrank && spec.decay != 0) text.update({{"decay", spec.decay}});
  if (spec.kind == Kind::spectrum) text.update({{"variances", spec.variances}});
  if (spec.kind == Kind::classes) text.update({{"classes", spec.classes}});
  if (spec.outlier > 0) text.update({{"outlier", spec.outlier}});
  if (spec.halves) text.update({{"halves", true}});
  return text.dump();
}

PointGenerator::PointGenerator(const GeneratorSpec& spec) : spec_(spec) {
  const auto refuse = [](const std::string& what, auto value, const std::string& advice) {
    throw Error("a generator cannot draw points with " + what + " " + std::to_string(value) + ": give " + advice);
  };
  if (spec.n < 1) refuse("n", spec.n, "at least 1");
  if (spec.d < 1 || spec.d > size_t(1) << 31) refuse("d", spec.d, "1 to 2^31");
  if (spec.kind == Kind::blobs) {
    if (spec.clusters < 1) refuse("clusters", spec.clusters, "at least 1");
    if (!(spec.spread >= 0 && std::isfinite(spec.spread))) refuse("spread", spec.spread, "a number not below 0");
    if (!(spec.zeros >= 0 && spec.zeros < 1)) refuse("a share of zeros of", spec.zeros, "a number in [0, 1)");
    centres_.resize(spec.clusters * spec.d);
    for (int cluster = 0; cluster < spec.clusters; ++cluster)
      for (size_t f = 0; f < spec.d; ++f) {
        const Words words = draw(spec.seed, Stream::centre, cluster, uint32_t(f / 2));
        const size_t half = f % 2 * 2;
        centres_[cluster * spec.d + f] = 20 * uniform_double(bits64(words[half], words[half + 1])) - 10;
      }
  } else if (spec.kind == Kind::lowrank) {
    if (spec.rank < 1) refuse("rank", spec.rank, "at least 1");
    if (!(spec.noise >= 0 && std::isfinite(spec.noise))) refuse("noise", spec.noise, "a number not below 0");
    if (!(spec.decay >= 0 && std::isfinite(spec.decay))) refuse("a decay of", spec.decay, "a number not below 0");
    mixing_.resize(spec.rank * spec.d);
    double all = 0;
    for (int r = 1; r <= spec.rank; ++r) all += std::pow(r, -spec.decay);
    for (int r = 0; r < spec.rank; ++r) {
      normals(spec.seed, Stream::mixing, r, spec.d, &mixing_[r * spec.d]);
      const double scale = std::pow(r + 1, -spec.decay / 2) / std::sqrt(all);
      for (size_t f = 0; f < spec.d; ++f) mixing_[r * spec.d + f] *= scale;
    }
  } else if (spec.kind == Kind::spectrum) {
    const std::vector<double> shares = shares_of(spec);
    double all = 0;
    for (const double share : shares) all += share;
    spec_.rank = int(spec.d);
    spec_.noise = 0;
    mixing_ = orthogonal_rows(spec.seed, spec.d);
    for (size_t r = 0; r < spec.d; ++r) {
      const double scale = std::sqrt(shares[r] / all * double(spec.d));
      for (size_t f = 0; f < spec.d; ++f) mixing_[r * spec.d + f] *= scale;
    }
  } else if (spec.kind == Kind::classes) {
    if (spec.classes < 1) refuse("classes", spec.classes, "at least 1");
    const auto cells = [&](int side) {  // of a grid, as far as that matters
      int count = 1;
      for (size_t f = 0; f < spec.d && count < spec.classes; ++f) count *= side;
      return count;
    };
    int side = 1;
    while (cells(side) < spec.classes) ++side;
    corners_.resize(spec.classes * spec.d);
    for (int c = 0; c < spec.classes; ++c)
      for (size_t f = 0, rest = size_t(c); f < spec.d; ++f, rest /= side)
        corners_[c * spec.d + f] = 2.0 * (rest % side);
  }
}

void PointGenerator::blob_row(size_t row, float* out) const {
  const uint32_t cluster = Sequence(spec_.seed, Stream::cluster, row).below(uint32_t(spec_.clusters));
  const double* centre = &centres_[cluster * spec_.d];
  for (size_t f = 0; f < spec_.d; f += 4) {
    const size_t count = std::min<size_t>(4, spec_.d - f);
    bool zero[4] = {};
    if (spec_.zeros > 0) {
      const Words words = draw(spec_.seed, Stream::zeros, row, uint32_t(f / 4));
      for (int l = 0; l < 4; ++l) zero[l] = uniform(words[l]) < spec_.zeros;
    }
    const Words words = draw(spec_.seed, Stream::noise, row, uint32_t(f / 4));
    for (size_t l = 0; l < count; ++l)
      out[f + l] = zero[l] ? 0.0f : float(centre[f + l] + spec_.spread * normal(words[l]));
  }
}

void PointGenerator::class_row(size_t row, float* out) const {
  const double* corner = &corners_[Sequence(spec_.seed, Stream::cluster, row).below(uint32_t(spec_.classes)) * spec_.d];
  for (size_t f = 0; f < spec_.d; f += 4) {
    const Words words = draw(spec_.seed, Stream::noise, row, uint32_t(f / 4));
    for (size_t l = 0; l < std::min<size_t>(4, spec_.d - f); ++l) out[f + l] = float(corner[f + l] + uniform(words[l]));
  }
}

void PointGenerator::lowrank_row(size_t row, float* out, std::vector<double>& latent, std::vector<double>& sum) const {
  const size_t d = spec_.d;
  latent.resize(spec_.rank);
  sum.resize(d);
  normals(spec_.seed, Stream::factor, row, latent.size(), latent.data());
  normals(spec_.seed, Stream::noise, row, d, sum.data());
  for (size_t f = 0; f < d; ++f) sum[f] *= spec_.noise;
  for (int r = 0; r < spec_.rank; ++r)
    for (size_t f = 0; f < d; ++f) sum[f] += latent[r] * mixing_[r * d + f];
  for (size_t f = 0; f < d; ++f) out[f] = float(sum[f]);
}

void PointGenerator::rows(size_t begin, size_t end, float* out) const {
  std::vector<double> latent, sum(spec_.d);
  for (size_t row = begin; row < end; ++row, out += spec_.d) {
    switch (spec_.kind) {
      case Kind::blobs:
        blob_row(row, out);
        break;
      case Kind::spectrum:
      case Kind::lowrank:
        lowrank_row(row, out, latent, sum);
        break;
      case Kind::classes:
        class_row(row, out);
        break;
      case Kind::isotropic:
        normals(spec_.seed, Stream::noise, row, spec_.d, sum.data());
        for (size_t f = 0; f < spec_.d; ++f) out[f] = float(sum[f]);
        break;
    }
    if (spec_.outlier > 0 && row == spec_.n / 2) {
      for (size_t f = 0; f < spec_.d; ++f) out[f] = std::ldexp(out[f], spec_.outlier);
    }
    if (spec_.halves) std::transform(out, out + spec_.d, out, nearest_half);
  }
}

void generate(const GeneratorSpec& spec, const std::string& path) {
  const PointGenerator generator(spec);
  NpyWriter writer(path, ElementType::f32, {spec.n, spec.d});
  float* points = writer.data<float>();
  const size_t grain = std::max<size_t>(1, 65536 / spec.d);
  parallel_pieces(spec.n, grain,
                  [&](size_t, size_t begin, size_t end) { generator.rows(begin, end, points + begin * spec.d); });
  writer.commit();
}

template <class T>
InitialCentroids<T> initial_centroids(const T* points, int n, int d, int k, uint64_t seed) {
  if (k < 1) throw Error("K is " + std::to_string(k) + ": ask for at least one cluster");
  if (k > n)
    throw Error("K is " + std::to_string(k) + ", more than the " + std::to_string(n) +
                " points: ask for at most as many clusters as points");
  const auto row = [&](int i) { return points + size_t(i) * d; };
  const auto hash = [&](int i) {
    uint64_t value = 0;
    for (int f = 0; f < d; ++f) {
      const T coordinate = row(i)[f] + T(0);  // -0.0 becomes 0.0: equal rows, equal hashes
      uint64_t bits = 0;
      std::memcpy(&bits, &coordinate, sizeof coordinate);
      value = (value ^ bits) * 0x9E3779B97F4A7C15;
      value ^= value >> 32;
    }
    return size_t(value);
  };
  const auto equal = [&](int i, int j) { return std::equal(row(i), row(i) + d, row(j)); };
  std::unordered_set<int, decltype(hash), decltype(equal)> taken(2 * size_t(k), hash, equal);

  InitialCentroids<T> result;
  std::vector<int32_t> order(n), repeats;
  std::iota(order.begin(), order.end(), 0);
  Sequence random(seed, Stream::centroids);
  for (int i = 0; i < n && int(result.row.size()) < k; ++i) {  // Fisher and Yates, as far as needed
    std::swap(order[i], order[i + random.below(uint32_t(n - i))]);
    (taken.insert(order[i]).second ? result.row : repeats).push_back(order[i]);
  }
  result.row.insert(result.row.end(), repeats.begin(), repeats.begin() + (k - int(result.row.size())));
  result.centroids.reserve(size_t(k) * d);
  for (const int32_t i : result.row) result.centroids.insert(result.centroids.end(), row(i), row(i) + d);
  return result;
}
template InitialCentroids<float> initial_centroids(const float*, int, int, int, uint64_t);
template InitialCentroids<double> initial_centroids(const double*, int, int, int, uint64_t);

}  // namespace ladder
