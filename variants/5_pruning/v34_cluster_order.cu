// v34: a full re-sum in cluster order. Where most points moved, the base adds all of them in the order of their
// numbers, so consecutive points go to sums all over the K x D words. Here a counting sort by label comes first (one
// prefix sum over the counts that the update has anyway, one scatter), and the re-sum reads the points in that order:
// consecutive points add to the same D words. The number of atomics stays; later rungs use the order (filters read rows
// with similar candidates together, v43 sums runs of equal labels in registers).
//
// for cuda: 90a
#include "../common/pruning/full_dimension.cuh"
#include "../common/update/cluster_order.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FullDimension<T> {
  IncrementalSums sums;
  ClusterOrder order;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_full_dimension(s);
  prepare_incremental(s);
  prepare_order(s, 0);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  choose_format(s, s.x);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_refinement(s);
  restart_incremental(s);
  restart_order(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_full_dimension(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  const MoveCounters* const moves = list_moved(s);
  sort_by_cluster(s, moves);
  move_points(s, s.x, moves, FullUpdate{.order = s.ws.order.rows.row});
  divide_exact(s);
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  fetch_move_counters(s);
  download_refined(s);
  report_moves(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_full_dimension(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .download = download<T>};
}  // namespace

LADDER_VARIANT(.id = "v34_cluster_order", .base = "v33_incremental_update",
               .idea = "a counting sort by label: a full re-sum reads the points cluster by cluster",
               .expect =
                   "no gain by itself, perhaps a loss: as many atomics as before, and now consecutive points contend "
                   "for the same words of L2, where the base spread them; the sort adds some 0.02 ms at kmcuda on an "
                   "H200. With large K D, where the sums do not fit L2, the order may save misses. The rungs above "
                   "need it",
               .shows = "update", .counter = "global_atomics", .source = "counting sort: H. Seward, 1954",
               .arithmetic = {.form = Arithmetic::Form::exact, .operands = "fp16"}, .refuse = refuse,
               .f32 = phases<float>, .f64 = phases<double>)
