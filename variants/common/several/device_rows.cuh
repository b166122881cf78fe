// Points split by rows over the devices of a run: each device solves its rows as a run of one device, with a state of
// its own. The devices of a process are driven by one host thread, each in a stream of its own; where the run has
// several processes (ranks), each of them does so for its share of the rows. v33a_split_rows introduces it.
#pragma once
#include "../lloyd/phases.cuh"

namespace ladder {

/// The rows of one device, as the problem of a run of its own; W: its workspace. Not to be moved: the run refers to it.
template <class T, class W>
struct DeviceRows {
  RowRange rows;  // of all points
  Problem<T> problem;
  Device device;
  std::unique_ptr<Run<T, W>> run;
};

/// Of the devices of this process, in order.
template <class T, class W>
using DevicesOf = std::vector<std::unique_ptr<DeviceRows<T, W>>>;

/// Device `index` of `devices` gets these of the rows `all`: equal shares, one row more or less.
inline RowRange share_of(const RowRange& all, int index, int devices) {
  const int begin = int(int64_t(all.count) * index / devices), end = int(int64_t(all.count) * (index + 1) / devices);
  return {all.first + begin, end - begin};
}

/// Why a run cannot have these devices; empty if it can. `least`: rows that each device needs.
inline std::string refuse_devices(const Shape& p, const Device& device, int least = 1) {
  const int devices = device.devices();
  if (!device.no_communicator.empty() || p.n >= devices * least) return device.no_communicator;
  return "needs at least " + std::to_string(devices * least) + " points for " + std::to_string(devices) +
         (devices == 1 ? " device" : " devices") + ", and N is " + std::to_string(p.n) +
         (devices == 1 ? "" : ": give it fewer with --gpus or --ranks");
}

/// The number in all ranks of this process's device number 0.
template <class T>
int first_device(const State<T>& s) {
  return s.device_info.rank * s.gpus();
}

/// Calls f(gpu) for each device of this process, with that device current.
template <class T, class F>
void on_each_gpu(State<T>& s, const F& f) {
  for (int gpu = 0; gpu < s.gpus(); ++gpu) s.on_gpu(gpu, [&] { f(gpu); });
}
/// Calls f(run) for each of these devices, with that device current.
template <class T, class W, class Outer, class F>
void on_each(Run<T, Outer>& s, DevicesOf<T, W>& devices, const F& f) {
  on_each_gpu(s, [&](int gpu) { f(*devices[gpu]->run); });
}

/// Adds the next device of this process, with these rows, and calls prepare(run) for it.
template <class T, class W, class Outer, class F>
void add_device(Run<T, Outer>& s, DevicesOf<T, W>& devices, const RowRange& rows, const F& prepare) {
  const int gpu = int(devices.size());
  auto& one = *devices.emplace_back(std::make_unique<DeviceRows<T, W>>());
  one.rows = rows;
  one.problem = s.problem;
  one.problem.n = rows.count, one.problem.nnz = -1, one.problem.csr = {};
  one.problem.points = s.problem.points + size_t(rows.first) * s.d;
  one.device = s.device_info;
  one.device.ordinals = {s.device_info.ordinals[gpu]}, one.device.ranks = 1;
  const cudaStream_t stream = s.stream_of(gpu);
  s.on_gpu(gpu, [&] {  // events of the workspace are made there, too
    one.run = std::make_unique<Run<T, W>>(one.problem, one.device);
    one.run->stream = stream;
    one.run->axes = s.axes;
    prepare(*one.run);
  });
}

/// Splits the rows `all` over the devices, and calls prepare(run) for each.
template <class T, class W, class Outer, class F>
void prepare_devices(Run<T, Outer>& s, DevicesOf<T, W>& devices, const RowRange& all, const F& prepare) {
  for (int gpu = 0; gpu < s.gpus(); ++gpu)
    add_device(s, devices, share_of(all, first_device(s) + gpu, s.device_info.devices()), prepare);
}

/// Calls restart(run) for each device, with the initial centroids of the whole run.
template <class T, class W, class Outer, class F>
void restart_devices(Run<T, Outer>& s, DevicesOf<T, W>& devices, const F& restart) {
  for (auto& one : devices) one->problem.centroids = s.problem.centroids;
  s.fork();
  on_each(s, devices, [&](Run<T, W>& run) {
    run.counters.clear();
    restart(run);
  });
  s.join();
}

/// Puts the labels of the rows of all ranks, which this process has downloaded for its own, into the result.
template <class T, class W, class Outer>
void gather_labels(Run<T, Outer>& s, const DevicesOf<T, W>& devices, const RowRange& all) {
  for (const auto& one : devices)
    std::copy_n(one->run->result.label, one->rows.count, s.result.label + one->rows.first);
  const int ranks = s.device_info.ranks;
  if (ranks == 1) return;
  const size_t most = size_t(all.count / ranks + 1);
  const auto share = [&](int rank) { return share_of(all, rank, ranks); };
  std::vector<int32_t> mine(most), everyone(most * size_t(ranks));
  const RowRange rows = share(s.device_info.rank);
  std::copy_n(s.result.label + rows.first, rows.count, mine.begin());
  s.device_info.communicator->gather(mine.data(), most * sizeof(int32_t), everyone.data());
  for (int rank = 0; rank < ranks; ++rank)
    std::copy_n(everyone.begin() + std::ptrdiff_t(most * size_t(rank)), share(rank).count,
                s.result.label + share(rank).first);
}

using Counters = std::map<std::string, std::vector<int64_t>>;

/// Moves counters of the same iterations to those of other rows on the same device: `to` += `from`.
inline void add_counters(Counters& to, Counters& from) {
  for (auto& [name, values] : from) {
    auto& sums = to[name];
    sums.resize(std::max(sums.size(), values.size()));
    for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
  }
  from.clear();
}

/// Adds these devices' counters, which all have the same names and lengths, to those of the run, over all ranks.
template <class T, class W, class Outer>
void add_counters(Run<T, Outer>& s, const DevicesOf<T, W>& devices) {
  std::vector<int64_t> sums;
  for (const auto& one : devices) {
    size_t at = 0;
    for (auto& [name, values] : one->run->counters) {
      sums.resize(std::max(sums.size(), at + values.size()));
      for (const int64_t value : values) sums[at++] += value;
    }
  }
  const size_t ranks = size_t(s.device_info.ranks), count = sums.size();
  if (ranks > 1) {
    std::vector<int64_t> everyone(count * ranks);
    s.device_info.communicator->gather(sums.data(), count * sizeof(int64_t), everyone.data());
    for (size_t e = 0; e < count; ++e) {
      sums[e] = 0;
      for (size_t rank = 0; rank < ranks; ++rank) sums[e] += everyone[rank * count + e];
    }
  }
  size_t at = 0;
  for (auto& [name, values] : devices[0]->run->counters) {
    auto& all = s.counters[name];
    all.insert(all.end(), sums.begin() + std::ptrdiff_t(at), sums.begin() + std::ptrdiff_t(at + values.size()));
    at += values.size();
  }
  for (const auto& one : devices) one->run->counters.clear();
}

/// Calls download(run) for each device, and puts labels, centroids and counters where those of the run belong.
template <class T, class W, class Outer, class F>
void download_devices(Run<T, Outer>& s, DevicesOf<T, W>& devices, const RowRange& all, const F& download) {
  s.fork();
  on_each(s, devices, download);
  s.join();
  gather_labels(s, devices, all);
  add_counters(s, devices);
  std::copy_n(devices[0]->run->result.centroids, size_t(s.k) * s.d, s.result.centroids);
}

}  // namespace ladder
