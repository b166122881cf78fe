// v27b: sums of neighbours. Where many points move, v25 adds up all of them anew, each of N x D coordinates by an
// atomic operation on 64 bits of its cluster's sum: it takes these as long as the labels, and where K is small most of
// them meet in the same few words. But the contest has put the points in the order of their guesses, so that those of a
// cluster are neighbours: a block adds up a cluster's share in registers, and touches its sum once
// (parts/neighbour_sums.cuh). That is so much less that it pays as soon as one point in a few moves.
// for cuda: 90a
#include "parts/contested.cuh"
#include "parts/row_bounds.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/neighbour_sums.cuh"

namespace {
using namespace ladder;

template <class T>
void prepare(State<T>& s) {
  prepare_bounded(s);
  s.template own<MovedSums>().share = s.axis("share");
}

template <class T>
void update(State<T>& s) {
  const auto& few = s.template own<Few>();
  const bool in_order = few.width > 0 && s.template own<Recheck>().done > 0;  // a contest has put them there
  move_neighbours(s, s.x, in_order ? few.order.row : nullptr, list_moved(s));
  step_to_means(s);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload_contested<T>,
                           .restart = restart_bounded<T>,
                           .assign = assign_bounded<T>,
                           .update = update<T>,
                           .download = download_contested<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v27b_neighbour_sums", .base = "v27_row_bounds",
        .idea =
            "where many points move, those of a cluster that lie side by side are summed before the sums are touched",
        .expect =
            "the first update of v27 takes 0.76 ms at kmcuda on an H200, most of it 122 million atomics; read once and "
            "added up in registers the points take 0.2 to 0.25. In the next iterations, in which a tenth to a half of "
            "the points move, 0.5 ms less; later ones stay. Where K is small, much more: blobs30's update by v26b "
            "takes "
            "20 ms, and the points are read in 1",
        .shows = "update", .counter = "global_atomics", .source = "W. Hillis and G. Steele, 1986: segmented sums",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 30},
                 {"share", {2, 4, 6, 8, 12, 16}, 6}},
        .prunes = true, .refuse = refuse_contested, .f32 = phases<float>, .f64 = phases<double>)
