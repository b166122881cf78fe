// Broken on purpose: gives back what it never took, once all is over. Its own rows are right, and so are all others.
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

struct Own {
  bool all_points = false;
  ~Own() {
    if (all_points) cudaFree(this);
  }
};

template <class T>
void prepare(Run<T, Own>& s) {
  prepare_device(s);
  s.own.all_points = s.n > 1000;  // what a trial run leaves would be seen in the session itself
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update_on_host<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "b6_leaves_an_error", .base = "v01_global", .idea = "broken: leaves an error behind",
               .f32 = phases<float>, .f64 = phases<double>)
