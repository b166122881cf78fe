// The sums of points that several devices hold, added up over all of them: one all-reduce of whole numbers per
// iteration. The sums are in fixed point (update/reproducible_sum.cuh), so the centroids have the same bits on any
// number of devices. Each device keeps the sums of its own rows, as one device alone does; the words that travel are
// these, and behind them for each cluster its points and whether any joined or left it, and the number of points that
// moved. v33a_split_rows introduces it.
#pragma once
#include "../update/incremental.cuh"
#include "common_format.cuh"

namespace ladder {

/// A device's own sums, and those of all, which are its own where there is no other.
struct SummedDevices : IncrementalSums {
  ExactSums all;                          // sum: words x k x d, and the words behind
  unsigned long long* changed = nullptr;  // 1: points that moved, on all devices
  /// The sums of all devices, with what this device keeps beside its own.
  IncrementalSums of_all() const {
    IncrementalSums sums = *this;
    sums.sum = all.sum, sums.count = all.count;
    return sums;
  }
};

/// Words behind the sums: a word for each cluster, and one for the moves.
inline size_t words_behind(int k) { return size_t(k) + 1; }

// ---- launchers (summed_devices.cu)

/// Writes the words behind a device's sums.
void pack_counts(cudaStream_t stream, const SummedDevices& sums, const MoveCounters* moves, int k, int d);
/// Counts of all devices' points, the number that moved, and clusters that are dirty on any device, from these words.
void unpack_counts(cudaStream_t stream, const SummedDevices& sums, int k, int d);

// ---- phases of one device; W::sums is a SummedDevices

/// After prepare_incremental() with room for words_behind(k).
template <class T, class W>
void prepare_summed(Run<T, W>& s) {
  auto& m = s.ws.sums;
  const size_t words = size_t(FixedPoint::most_words) * s.k * s.d + words_behind(s.k);
  m.all.sum = s.device_info.communicator ? s.template device<unsigned long long>(words) : m.sum;
  m.all.count = s.template device<int>(s.k);
  m.changed = s.template device<unsigned long long>(1);
}

// ---- phases of all devices

/// Widens `all` by the range of these devices' rows, which are in run.x.
template <class T, class W, class Outer>
void widen_by_devices(Run<T, Outer>& s, DevicesOf<T, W>& devices, Extremes& all) {
  on_each(s, devices, [&](Run<T, W>& run) {
    clear_range(run);
    widen_range(run, run.x, all_rows(run));
  });
  widen_by_found(s, devices, all);
}

template <class T, class W, class Outer>
void choose_common_format(Run<T, Outer>& s, DevicesOf<T, W>& devices) {
  Extremes mine;
  widen_by_devices(s, devices, mine);
  const FixedPoint format = common_format(s, mine);
  for (auto& one : devices) one->run->ws.sums.format = one->run->ws.sums.all.format = format;
}

/// The all-reduce. `stream_of(gpu)`: the stream that it is work of, on that device.
template <class T, class W, class Outer, class Streams>
void add_up_devices(Run<T, Outer>& s, DevicesOf<T, W>& devices, const Streams& stream_of) {
  std::vector<Communicator::Part> parts;
  const size_t words = size_t(devices[0]->run->ws.sums.format.words) * s.k * s.d + words_behind(s.k);
  for (int gpu = 0; gpu < s.gpus(); ++gpu) {
    const SummedDevices& m = devices[gpu]->run->ws.sums;
    parts.push_back({m.sum, m.all.sum, stream_of(gpu)});
  }
  if (s.device_info.communicator) s.device_info.communicator->sum(parts, words);  // one device has its own
}

/// Brings the sums of all devices up to date: move(run) does so for a device's own and returns its moves.
template <class T, class W, class Outer, class F>
void sum_devices(Run<T, Outer>& s, DevicesOf<T, W>& devices, const F& move) {
  on_each(s, devices, [&](Run<T, W>& run) { pack_counts(run.stream, run.ws.sums, move(run), run.k, run.d); });
  add_up_devices(s, devices, [&](int gpu) { return s.stream_of(gpu); });
  on_each(s, devices, [&](Run<T, W>& run) { unpack_counts(run.stream, run.ws.sums, run.k, run.d); });
}

}  // namespace ladder
