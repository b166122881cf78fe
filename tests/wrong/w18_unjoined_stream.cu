// Wrong on purpose: the update runs on a stream of its own that nothing joins to the session's.
//
// rejected: wrong
// needs: late streams
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

struct Own {
  Sums sums;
  cudaStream_t stream = nullptr;
  ~Own() {
    if (stream) cudaStreamDestroy(stream);
  }
};

template <class T>
void update(Run<T, Own>& s) {
  auto& own = s.own;
  if (!own.stream) check(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking), "making a stream");
  const cudaStream_t session = std::exchange(s.stream, own.stream);
  update_shared<T, Layout::rows>(s);
  s.stream = session;
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w18_unjoined_stream", .base = "v05_shared_update", .idea = "an update that nobody waits for",
               .shows = "update", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
