// Broken on purpose: calls abort() in assign. Its own rows must fail, and nothing else.
#include <cstdlib>

#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void assign([[maybe_unused]] State<T>& s) {
  std::abort();
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "b1_abort", .base = "v01_global", .idea = "broken: calls abort() in assign", .f32 = phases<float>,
               .f64 = phases<double>)
