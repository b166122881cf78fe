// Wrong on purpose: right phases, and a solve that does nothing: what is timed must be what is checked.
// rejected: solve reported no iteration
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
void solve(State<T>&) {}

struct Own {
  Sums sums;
};

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update_shared<T, Layout::rows>,
                                .solve = solve<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w9_empty_solve", .base = "v05_shared_update", .idea = "a solve that does nothing",
               .shows = "solve", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
