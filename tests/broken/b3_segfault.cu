// Broken on purpose: writes through a null pointer. Its own rows must fail, and nothing else.
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void assign([[maybe_unused]] State<T>& s) {
  *static_cast<volatile int*>(nullptr) = 1;
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "b3_segfault", .base = "v01_global", .idea = "broken: writes through a null pointer",
               .f32 = phases<float>, .f64 = phases<double>)
