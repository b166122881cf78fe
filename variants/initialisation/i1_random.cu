// i1: K random distinct points. The host draws K row numbers one after the other; only these cross the bus, and the
// device gathers their points. Distinct: a point with the same coordinates as an earlier one goes to the end of the
// queue.
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "../common/seeding/draw.cuh"

namespace {
using namespace ladder;

/// Draws the same rows as the harness: a Fisher-Yates shuffle of 0 .. n - 1, stopped after k distinct points. Only the
/// positions that it changed are stored.
template <class T>
std::vector<int32_t> random_rows(const T* points, int n, int d, int k, uint64_t seed) {
  const auto row = [&](int i) { return points + size_t(i) * d; };
  const auto hash = [&](int i) {
    size_t value = 0;
    for (int f = 0; f < d; ++f) value = value * 31 + std::hash<T>()(row(i)[f]);  // equal for 0.0 and -0.0
    return value;
  };
  const auto equal = [&](int i, int j) { return std::equal(row(i), row(i) + d, row(j)); };
  std::unordered_set<int, decltype(hash), decltype(equal)> taken(2 * size_t(k), hash, equal);
  std::unordered_map<int, int> moved;
  const auto value_of = [&](int i) {
    const auto found = moved.find(i);
    return found == moved.end() ? i : found->second;
  };
  std::vector<int32_t> rows, repeats;
  Sequence random(seed, Stream::centroids);
  for (int i = 0; i < n && int(rows.size()) < k; ++i) {
    const int position = i + int(random.below(uint32_t(n - i))), drawn = value_of(position);
    moved[position] = value_of(i);
    moved.erase(i);  // not read again
    (taken.insert(drawn).second ? rows : repeats).push_back(drawn);
  }
  rows.insert(rows.end(), repeats.begin(), repeats.begin() + (k - int(rows.size())));
  return rows;
}

template <class T>
void initialise(State<T>& s) {
  const std::vector<int32_t> rows = random_rows(s.points, s.n, s.d, s.k, s.problem.seed);
  to_device(s, s.chosen, rows.data(), rows.size(), "uploading the drawn rows");
  gather(s, 0, s.k);
  check(cudaStreamSynchronize(s.stream), "uploading the drawn rows");  // the vector ends with this function
}

template <class T>
struct Workspace {
  Rows<T> rows;
  Sums sums;
};

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_draw<T>,
                                         .upload = upload_features<T>,
                                         .initialise = initialise<T>,
                                         .download = download_drawn<T>};
}  // namespace

LADDER_VARIANT(.id = "i1_random", .base = "", .idea = "K random distinct points as the first centroids",
               .expect = "microseconds: K rows cross the bus, and K x D values are copied on the device",
               .shows = "initialise", .source = "000", .draws = Draws::uniform, .f32 = phases<float>,
               .f64 = phases<double>)
