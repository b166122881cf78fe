// v33a: several GPUs. The base's assignment keeps one GPU busy for nearly the whole iteration, and no row's label
// depends on another row: twice the GPUs can take half the time. Here each GPU has a share of the rows
// (several/device_rows.cuh), labels them and keeps their sums as the base does. What depends on all rows are the
// centroids: one all-reduce adds up the sums of all GPUs (several/summed_devices.cuh), and each GPU divides them for
// itself. The base's sums are whole numbers, so labels, centroids and the number of iterations have the same bits on
// any number of GPUs, in one process or in several.
//
// for cuda: 90a
#include "../common/pruning/full_dimension.cuh"
#include "../common/several/summed_devices.cuh"

namespace {
using namespace ladder;

template <class T>
struct OfDevice : FullDimension<T> {
  SummedDevices sums;
};
template <class T>
using OneDevice = Run<T, OfDevice<T>>;

template <class T>
struct Workspace {
  DevicesOf<T, OfDevice<T>> devices;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_devices(s, s.ws.devices, all_rows(s), [](OneDevice<T>& run) {
    prepare_full_dimension(run);
    prepare_incremental(run, words_behind(run.k));
    prepare_summed(run);
  });
  s.changed = s.ws.devices[0]->run->ws.sums.changed;
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  s.fork();
  on_each(s, s.ws.devices, [](OneDevice<T>& run) {
    upload_rows(run);
    quantize_full_dimension(run);
  });
  choose_common_format(s, s.ws.devices);
  s.join();
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_devices(s, s.ws.devices, [](OneDevice<T>& run) {
    restart_refinement(run);
    restart_incremental(run);
  });
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  s.fork();
  on_each(s, s.ws.devices, [](OneDevice<T>& run) { assign_full_dimension(run); });
  sum_devices(s, s.ws.devices, [](OneDevice<T>& run) {
    const MoveCounters* const moves = list_moved(run);
    move_points(run, run.x, moves);
    return moves;
  });
  on_each(s, s.ws.devices,
          [](OneDevice<T>& run) { divide_exact<T>(run.stream, run.ws.sums.all, run.c, run.k, run.d); });
  s.join();
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  download_devices(s, s.ws.devices, all_rows(s), [](OneDevice<T>& run) {
    fetch_move_counters(run);
    download_refined(run);
    report_moves(run);
  });
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const std::string why = refuse_devices(p, device);
  return why.empty() ? refuse_full_dimension(p, device) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
    .prepare = prepare<T>, .upload = upload<T>, .restart = restart<T>, .iterate = iterate<T>, .download = download<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v33a_split_rows", .base = "v33_incremental_update",
        .idea = "rows split over several GPUs; one all-reduce of whole numbers adds up their sums",
        .expect =
            "at kmcuda on H200s the base assigns in 1.74 ms and updates in 0.02 ms in a late iteration. G GPUs assign "
            "in 1.74 / G. The sums are 5,000 x 408 words of 8 bytes, twice: 33 MB, of which a ring sends 2 (G - 1) / G "
            "through each GPU, at some 350 GB/s over NVLink: 0.09 ms at 2, 0.14 at 4, 0.16 at 8. With 0.03 ms for the "
            "rest a late iteration takes 0.99, 0.61 and 0.41 ms: efficiency 0.89, 0.72 and 0.54. The all-reduce does "
            "not shrink with N / G, so more points per centroid scale better. Measured on two H100s: a late iteration "
            "takes 1.09 ms, on one 1.79, efficiency 0.82, as the all-reduce takes 0.14 ms (some 235 GB/s, waits "
            "included) and 0.05 more do not halve; with 4 million points (kmcuda_large) 0.98. A larger step: rows of "
            "several devices, and a new algorithm for their sums",
        .shows = "solve", .source = "source 000; NCCL's all-reduce",
        .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .gpus = 16, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
