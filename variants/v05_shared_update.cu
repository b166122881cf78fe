// v05: sums per block in shared memory, then one double atomic per block, cluster and feature (update_shared.cuh).
// In v04 every point costs D atomics in global memory, all of them on the same K x D addresses; an atomic in shared
// memory stays inside the multiprocessor. Where K x D is larger than shared memory, a block takes a slice of features.
#include "parts/assign_rows.cuh"
#include "parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Sums sums;
};

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_sums<T>,
                                   .upload = upload_rows<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign_points<T>,
                                   .update = update_shared<T, Layout::rows>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v05_shared_update", .base = "v04_device_update", .idea = "per-block sums in shared memory",
               .expect = "global atomics fall by points per block / K; a gain where K is small, none where it is large",
               .shows = "update", .counter = "global_atomics", .source = "001 ii", .refuse = refuse_update_shared,
               .f32 = phases<float>, .f64 = phases<double>)
