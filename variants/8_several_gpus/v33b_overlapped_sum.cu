// v33b: the all-reduce behind the assignment. In the base all GPUs wait for it in every iteration: the sums are
// complete only when the last row has its label, and as many words for one row as for all. Here only the sums of the
// first rows, the *head*, travel that way, in a stream of their own, while the last rows, the *tail*, are labelled.
// Every GPU holds all points of the tail (several/tail_rows.cuh): once all know its labels, 4 bytes a row, each adds up
// the tail's moves for itself. All sums are whole numbers, so the bits do not depend on which way a point came into
// them.
//
// for cuda: 90a
#include "../common/pruning/full_dimension.cuh"
#include "../common/several/tail_rows.cuh"

namespace {
using namespace ladder;

template <class T>
struct OfDevice : FullDimension<T> {
  SummedDevices sums;
};
template <class T>
using OneDevice = Run<T, OfDevice<T>>;
template <class T>
using OneShare = Run<T, FullDimension<T>>;
template <class T>
using OneTail = Run<T, TailSums>;

template <class T>
struct Workspace {
  RowRange head, tail;
  DevicesOf<T, OfDevice<T>> devices;      // each with a share of the head
  DevicesOf<T, FullDimension<T>> shares;  // of the tail, to label
  DevicesOf<T, TailSums> tails;           // the whole tail on each device
  std::vector<std::unique_ptr<SideStream>> sides;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  auto& w = s.ws;
  const int devices = s.device_info.devices();
  const int wanted = int(int64_t(s.n) * s.axis("tail_percent") / 100);
  w.head = {0, s.n - std::clamp(wanted, devices, s.n - devices)};
  w.tail = {w.head.count, s.n - w.head.count};
  prepare_devices(s, w.devices, w.head, [](OneDevice<T>& run) {
    prepare_full_dimension(run);
    prepare_incremental(run, words_behind(run.k));
    prepare_summed(run);
  });
  prepare_devices(s, w.shares, w.tail, [](OneShare<T>& run) { prepare_full_dimension(run); });
  on_each_gpu(s, [&]([[maybe_unused]] int gpu) { w.sides.push_back(std::make_unique<SideStream>()); });
  for (int gpu = 0; gpu < s.gpus(); ++gpu) {
    w.shares[gpu]->run->c = w.devices[gpu]->run->c;
    // The all-reduce runs on those that the grid of the tail's assignment leaves free.
    int& multiprocessors = w.shares[gpu]->device.multiprocessors;
    if (devices > 1) multiprocessors = std::max(1, multiprocessors - s.axis("free_multiprocessors"));
    add_device(s, w.tails, w.tail,
               [&](OneTail<T>& run) { prepare_tail(run, gpu > 0 ? w.tails[0]->run->points : nullptr); });
  }
  s.changed = w.devices[0]->run->ws.sums.changed;
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  auto& w = s.ws;
  s.fork();
  const auto upload_one = [](auto& run) {
    upload_rows(run);
    quantize_full_dimension(run);
  };
  on_each(s, w.devices, upload_one);
  on_each(s, w.shares, upload_one);
  on_each(s, w.tails, [](OneTail<T>& run) { upload_rows(run); });
  Extremes mine;
  widen_by_devices(s, w.devices, mine);
  widen_by_devices(s, w.tails, mine);
  const FixedPoint format = common_format(s, mine);
  for (auto& one : w.devices) one->run->ws.sums.format = one->run->ws.sums.all.format = format;
  for (auto& one : w.tails) one->run->ws.sums.format = format;
  s.join();
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_devices(s, s.ws.devices, [](OneDevice<T>& run) {
    restart_refinement(run);
    restart_incremental(run);
  });
  restart_devices(s, s.ws.shares, [](OneShare<T>& run) { reset_refinement(run); });
  restart_devices(s, s.ws.tails, [](OneTail<T>& run) { restart_incremental(run); });
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  auto& w = s.ws;
  s.fork();
  on_each(s, w.devices, [](OneDevice<T>& run) { assign_full_dimension(run); });
  on_each_gpu(s, [&](int gpu) {
    OneDevice<T>& run = *w.devices[gpu]->run;
    const MoveCounters* const moves = list_moved(run);
    move_points(run, run.x, moves);
    pack_counts(run.stream, run.ws.sums, moves, run.k, run.d);
    w.sides[gpu]->fork(run.stream);
  });
  add_up_devices(s, w.devices, [&](int gpu) { return w.sides[gpu]->stream(); });
  on_each(s, w.shares, [](OneShare<T>& run) { assign_full_dimension(run); });
  share_labels(s, w.shares, w.tails);
  on_each_gpu(s, [&](int gpu) {
    OneTail<T>& tail = *w.tails[gpu]->run;
    OneDevice<T>& head = *w.devices[gpu]->run;
    const MoveCounters* const moves = list_moved(tail);
    move_points(tail, tail.x, moves);
    w.sides[gpu]->join(head.stream);
    unpack_counts(head.stream, head.ws.sums, head.k, head.d);
    divide_head_and_tail(head.stream, head.ws.sums, tail.ws.sums, moves, head.c, head.k, head.d);
  });
  s.join();
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  auto& w = s.ws;
  s.fork();
  on_each(s, w.shares, [](OneShare<T>& run) { download_refined(run); });
  on_each(s, w.devices, [](OneDevice<T>& run) { download_refined(run); });
  s.join();
  for (int gpu = 0; gpu < s.gpus(); ++gpu) add_counters(w.devices[gpu]->run->counters, w.shares[gpu]->run->counters);
  gather_labels(s, w.shares, w.tail);
  download_devices(s, w.devices, w.head, [](OneDevice<T>&) {});
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const std::string why = refuse_devices(p, device, 2);
  return why.empty() ? refuse_full_dimension(p, device) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
    .prepare = prepare<T>, .upload = upload<T>, .restart = restart<T>, .iterate = iterate<T>, .download = download<T>};
}  // namespace

LADDER_VARIANT(.id = "v33b_overlapped_sum", .base = "v33a_split_rows",
               .idea = "the all-reduce of most rows' sums runs while the last rows are labelled",
               .expect =
                   "at kmcuda on 4 H200s a late iteration of the base takes 0.61 ms, 0.14 of them in the all-reduce. "
                   "Here 3/4 of the rows take 0.33 ms, the last quarter 0.12 on 116 of 132 multiprocessors, beside the "
                   "0.14 of the all-reduce; labels of 75,000 rows are 0.3 MB, 0.02 ms: 0.52 ms together. While most "
                   "points move, in the first two iterations, each GPU adds up the whole tail, as many rows as its own "
                   "share: 0.2 ms more each. So 15 iterations gain a tenth, 300 gain 15 %. Memory for a quarter of the "
                   "points more on each GPU. Measured on two H100s, where it can hide 0.14 ms at most: slower, a late "
                   "iteration 1.15 ms after 1.09, as the split alone costs 0.18 ms on one GPU, where nothing is to "
                   "hide. A larger step: labels of the tail travel",
               .shows = "solve", .source = "source 000; NCCL's all-reduce",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"},
               .axes = {{"tail_percent", {6, 12, 25, 50}, 25}, {"free_multiprocessors", {0, 8, 16, 24, 32}, 16}},
               .gpus = 16, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
