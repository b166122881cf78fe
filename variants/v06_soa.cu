// v06: points stored feature by feature, so that the 32 threads of a warp load 32 neighbouring words.
// v05 keeps them point by point: neighbouring threads read D words apart, and one load of a warp touches up to 32
// sectors of 32 bytes where 4 would do. The transposition, once per upload, is paid in end_to_end.
#include "parts/assign_features.cuh"
#include "parts/update_shared.cuh"

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
                                   .update = update_shared<T, Layout::features>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v06_soa", .base = "v05_shared_update", .idea = "points stored feature by feature",
               .expect = "sectors per request 32 -> 4; assign bound by arithmetic, not by L1", .shows = "assign",
               .counter = "sectors_per_load", .source = "001 iii, 002 r1.3", .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
