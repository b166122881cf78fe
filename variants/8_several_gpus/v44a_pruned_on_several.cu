// v44a: the base's pruning on several GPUs. v33a splits the rows over the GPUs, but each compares its rows with every
// centroid in every iteration; the base does not, but on one GPU. Here each GPU is a run of the base on its own rows:
// with directions, short rows, bounds and an order of its own, none of which the labels depend on. Two things must be
// the same everywhere: the sums, which travel as in v33a, and which clusters are dirty. A centroid also moves where a
// point of another GPU joined or left its cluster, so the marks travel behind the sums (several/summed_devices.cuh),
// and a cluster is dirty on all GPUs if it is on one. Labels, centroids and iterations have the same bits on any
// number.
//
// for cuda: 90a
#include "../common/pruning/active_set.cuh"
#include "../common/several/summed_devices.cuh"

namespace {
using namespace ladder;

template <class T>
struct OfDevice : ActiveState<T> {
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
    prepare_active_set(run, words_behind(run.k));
    prepare_summed(run);
  });
  s.changed = s.ws.devices[0]->run->ws.sums.changed;
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  s.fork();
  on_each(s, s.ws.devices, [](OneDevice<T>& run) {
    upload_rows(run);
    prepare_points(run);
  });
  choose_common_format(s, s.ws.devices);
  s.join();
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_devices(s, s.ws.devices, [](OneDevice<T>& run) { restart_active_set(run); });
}

template <class T>
void iterate(Run<T, Workspace<T>>& s) {
  s.fork();
  on_each(s, s.ws.devices, [](OneDevice<T>& run) { assign_active_set(run); });
  sum_devices(s, s.ws.devices, [](OneDevice<T>& run) {
    const MoveCounters* const moves = list_and_sort(run);
    move_or_sum_segments(run, run.x, moves);
    return moves;
  });
  on_each(s, s.ws.devices, [](OneDevice<T>& run) {
    step_to_means(run.stream, run.ws.sums.of_all(), run.c, run.ws.bounds.travelled, run.k, run.d);
    run.ws.active.proven = true;
  });
  s.join();
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  download_devices(s, s.ws.devices, all_rows(s), [](OneDevice<T>& run) { download_active_set(run); });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_devices(p, device);
  return why.empty() ? refuse_filter(p, device, axes) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{
    .prepare = prepare<T>, .upload = upload<T>, .restart = restart<T>, .iterate = iterate<T>, .download = download<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v44a_pruned_on_several", .base = "v44_active_set",
        .idea = "each GPU prunes its own rows; sums and dirty clusters are those of all GPUs",
        .expect =
            "a late iteration of the base takes 0.38 ms at kmcuda on an H100, some 0.3 of them in the filter, which 4 "
            "GPUs do in 0.08. The all-reduce of 33 MB takes 0.14 ms, what does not depend on N 0.08: 0.3 ms, "
            "efficiency 0.3. The first iteration, 1.24 ms, takes 0.45. So pruning leaves little to share at this size: "
            "several GPUs pay for more points per centroid, or where one GPU's memory is too small. Measured on two "
            "H100s: the first iteration 0.94 ms after 1.32, a late one 0.42 after 0.39, a solve 9.19 ms after 8.92 in "
            "one process and 8.46 in two: the all-reduce takes 0.14 ms on two GPUs already, and one host thread "
            "launches for both GPUs. A larger step: phases of several devices",
        .shows = "solve", .source = "source 000; v33a_split_rows", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8}},
        .prunes = true, .gpus = 16, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
