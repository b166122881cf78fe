// v25: only points that moved count. An update adds up all N x D coordinates anew, though after a few iterations hardly
// a point has changed its cluster. Here sums stay: a point that moved is taken from the one and added to the other.
// Sums of doubles would keep the rounding of each such step, and drift; these are whole numbers in 64-bit words
// (update/reproducible_sum.cuh), in which nothing is rounded. So what comes out is the same to the last bit whatever
// way each iteration takes, in any order of the points' atomics, and on any GPU; and where most points move, which the
// device finds out by itself, all are added up anew. Points stay row by row, as they arrive: an update reads whole
// points.
#include "../common/certified/assign_sm80.cuh"
#include "../common/certified/refine.cuh"
#include "../common/update/incremental.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace {
  Rows<T> rows;
  certified::Certified<T> certified;
  Refinement refinement;
  IncrementalSums incremental;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_pinned(s);
  s.ws.rows.points = s.x;
  prepare_certified(s);
  prepare_incremental(s);
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_points(s);
  choose_format(s, s.x);
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_refinement(s);
  restart_incremental(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_incremental(s, s.x);
}

template <class T>
void download(Run<T, Workspace<T>>& s) {
  fetch_move_counters(s);
  download_refined(s);
  report_moves(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_certified(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign_certified<T>,
                                         .update = update<T>,
                                         .download = download<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v25_incremental_update", .base = "v19_refine",
        .idea = "exact sums that stay; only points whose label changed touch them",
        .expect =
            "v19's update takes 2.8 of its 10.3 ms at kmcuda on an H200; one in which 1 % of the points move "
            "touches a fiftieth of the sums: 0.05, and a solve gains a quarter. The first update, the one that is "
            "timed by itself, adds all points up: some 1 ms, as neighbouring threads add to neighbouring sums; but "
            "where K is small many atomics meet there, and it is slower than the base. A new algorithm: sums are kept, "
            "not made",
        .shows = "solve", .counter = "global_atomics",
        .source = "U. Kulisch and W. Miranker, exact sums in fixed point, 1981",
        .arithmetic = {.form = Arithmetic::Form::exact}, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
