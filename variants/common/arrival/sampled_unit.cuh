// The format of the sums from the sample of an upload, so that sums can begin before the last point has arrived. Any
// format in which all points are whole numbers gives the same means (mean_of), so the sample's has room to spare on
// both sides, and is kept if the points, once all are there, do not exceed it. Else theirs is chosen, as without a
// sample. v49_sampled_unit introduces it.
#pragma once
#include "full_ahead.cuh"

namespace ladder {

/// Of the spare binary digits at least so many go below the sample's least bit and above its largest value, where the
/// words have them. Of n normal numbers the least is about 1 / n: a sample of one point in 73 has 6 digits less.
constexpr int spare_below = 8, spare_above = 2;
/// At most so many go above: a row that is 2^12 times as long as the others (certified/common_unit.cuh) still fits, and
/// of 44 binary digits of the highest word 32 are left for the 24 of a value: few values have digits in two words.
constexpr int most_above = 12;

struct SampledUnit {
  Extremes* range = nullptr;  // 1, on the device: of the sample
  Extremes* host = nullptr;   // 1, page-locked
  bool begun = false;         // the sums' format is the sample's
  bool fits = false;          // and that of all points of the last upload
};

/// A format for the sums of n points of type T, whose sample has this range. Without words: the sample has none.
template <class T>
FixedPoint unit_with_headroom(const Extremes& sample, int n) {
  constexpr int lowest = sizeof(T) == 4 ? -149 : -1074;  // T has no lower bits
  if (sample.not_finite != ~0ull || sample.high == 0) return {.words = 0};
  const int low = Extremes::exponent(sample.low), high = Extremes::exponent(sample.high);
  const FixedPoint least = FixedPoint::of(n, low - spare_below, high + spare_above);
  // All digits of these words, but no more than a run of points adds up in two summands, where these are enough.
  const int most = least.high - least.low <= 2 * summand_bits ? 2 * summand_bits : most_summands * summand_bits;
  const int unused = std::min(std::min(least.words, FixedPoint::most_words) * least.bits, most) - (high - low);
  if (unused < 0) return {.words = 0};
  const int above = std::clamp(unused - spare_below, std::min(unused, spare_above), most_above);
  return FixedPoint::of(n, std::max(low - (unused - above), lowest), high + above);
}

/// Whether these points are whole numbers in the format, and small enough.
__host__ __device__ inline bool within(const Extremes& range, const FixedPoint& format) {
  return range.not_finite == ~0ull && Extremes::exponent(range.low) >= format.low &&
         Extremes::exponent(range.high) <= format.high;
}

// ---- phases

template <class T, class W>
void prepare_unit(Run<T, W>& s) {
  s.ws.unit.range = s.template device<Extremes>(1);
  s.ws.unit.host = s.template pinned<Extremes>(1);
}

/// Directions, width and the format of the sums, from `count` rows on the device. Waits for it.
template <class T, class W>
void find_projection_and_unit(Run<T, W>& s, const T* rows, int count) {
  auto& unit = s.ws.unit;
  *unit.host = {};
  to_device(s, unit.range, unit.host, 1, "clearing the range of the sample");
  find_range(s.stream, rows, 0, int64_t(count) * s.d, unit.range, s.device_info.multiprocessors);
  check(cudaMemcpyAsync(unit.host, unit.range, sizeof *unit.host, cudaMemcpyDeviceToHost, s.stream),
        "downloading the range of the sample");
  find_projection(s, rows, count);
  check(cudaStreamSynchronize(s.stream), "finding the range of the sample");
  const FixedPoint format = unit_with_headroom<T>(*unit.host, s.n);
  unit.begun = format.words > 0;
  if (unit.begun) s.ws.sums.format = format;
}

/// With the range of all points: keeps the sample's format or chooses theirs.
template <class T, class W>
void keep_unit(Run<T, W>& s, const Extremes& range) {
  auto& unit = s.ws.unit;
  unit.fits = unit.begun && within(range, s.ws.sums.format);
  if (!unit.fits) choose_format(s, range);
}

/// For each reported iteration: the points whose range chose the format of the sums.
template <class T, class W>
void report_unit(Run<T, W>& s) {
  const auto& unit = s.ws.unit;
  s.counters["points that chose the unit"].resize(s.counters["rows rechecked"].size(),
                                                  unit.fits ? s.ws.chunks.sampled_rows : s.n);
}

}  // namespace ladder
