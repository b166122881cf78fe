// v06b: each lane of a warp adds up its points in sums of its own, K x 32 doubles side by side in shared memory, and
// the 32 columns are added once at the end. In v06 all threads of a block add to the same K x D sums: where K is small
// the lanes of a warp meet in the same words, and shared memory has no addition of doubles, so that each becomes a loop
// of compare-and-swap. Where K is too large for 32 columns, v06's way stays; where it is too large for that, v04's.
#include "parts/assign_features.cuh"
#include "parts/update_lanes.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Rows<T> rows;
  Sums sums;
};

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_features<T>,
                                   .upload = upload_features<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign_points<T>,
                                   .update = update_any<T, Layout::features>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v06b_lane_sums", .base = "v06_soa", .idea = "sums of its own for every lane",
               .expect =
                   "update at K = 10 bound by reading the points once, not by compare-and-swap: 5 to 10 times faster; "
                   "nothing changes for K between 65 and some 19 000. A larger step: sums per lane are a kernel of "
                   "their own, and so are v04's atomics for points stored by feature",
               .shows = "update", .counter = "shared_atomics",
               .source = "the privatisation of histograms (Gomez-Luna and others, 2013)", .f32 = phases<float>,
               .f64 = phases<double>)
