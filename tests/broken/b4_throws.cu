// Broken on purpose: asks for more memory than there is. Its own rows must fail, and nothing else.
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void assign([[maybe_unused]] State<T>& s) {
  s.template device<T>(size_t(1) << 50);
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "b4_throws", .base = "v01_global", .idea = "broken: asks for more memory than there is",
               .f32 = phases<float>, .f64 = phases<double>)
