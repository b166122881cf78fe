// The last rows of the points, the *tail*, held by every device: each labels a share of them, all learn all their
// labels, and each adds the tail's points up for itself. Two labels travel in a word, 4 bytes for a row, where sums
// take 8 bytes or more for each cluster and feature. v33b_overlapped_sum introduces it.
#pragma once
#include "../overlap/side_stream.cuh"
#include "summed_devices.cuh"

namespace ladder {

/// The whole tail on one device, as a run of its own whose labels arrive from all devices.
struct TailSums {
  IncrementalSums sums;                 // of the tail's points
  unsigned long long* words = nullptr;  // (n + 1) / 2: two labels each
};

// ---- launchers (tail_rows.cu)

/// Words of n rows' labels, of which this device has label[0 .. share.count) of the rows from share.first on; 0 for the
/// others.
void pack_labels(cudaStream_t stream, const int32_t* label, const RowRange& share, unsigned long long* words, int n);
/// label[0 .. n) from the sums of all devices' words.
void unpack_labels(cudaStream_t stream, const unsigned long long* words, int32_t* label, int n);
/// c = (sums of all devices' heads + sums of the tail) / points of both; a centroid without points stays. Adds the
/// moves of the tail to head.changed.
template <class T>
void divide_head_and_tail(cudaStream_t stream, const SummedDevices& head, const IncrementalSums& tail,
                          const MoveCounters* moves, T* c, int k, int d);

// ---- phases

/// Memory for the tail, all of whose points are on each device. `points`: page-locked, from another device of this
/// process; null: to be made.
template <class T, class W>
void prepare_tail(Run<T, W>& s, const T* points) {
  prepare_device(s);
  if (!points) {
    T* const locked = s.template pinned<T>(size_t(s.n) * s.d);
    std::memcpy(locked, s.problem.points, size_t(s.n) * s.d * sizeof(T));
    points = locked;
  }
  s.points = points;
  prepare_incremental(s);
  s.ws.words = s.template device<unsigned long long>(blocks(s.n, 2));
}

/// The labels of the tail's shares become known to all devices: tails[g]->run->label.
template <class T, class Share, class W, class Outer>
void share_labels(Run<T, Outer>& s, const DevicesOf<T, Share>& shares, DevicesOf<T, W>& tails) {
  std::vector<Communicator::Part> parts;
  on_each_gpu(s, [&](int gpu) {
    Run<T, W>& tail = *tails[gpu]->run;
    const RowRange& rows = shares[gpu]->rows;
    pack_labels(tail.stream, shares[gpu]->run->label, {rows.first - tails[gpu]->rows.first, rows.count}, tail.ws.words,
                tail.n);
    parts.push_back({tail.ws.words, tail.ws.words, tail.stream});
  });
  if (s.device_info.communicator) s.device_info.communicator->sum(parts, size_t(blocks(tails[0]->run->n, 2)));
  on_each(s, tails, [](Run<T, W>& tail) { unpack_labels(tail.stream, tail.ws.words, tail.label, tail.n); });
}

}  // namespace ladder
