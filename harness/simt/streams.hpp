// Streams. As they come, what a call starts is done when the call returns. Late streams (options.hpp) keep the work of
// every stream but the legacy one until something waits for it: what nothing waits for is then seen to be missing.
#pragma once
#include <simt/host_api.h>

#include <functional>

namespace simt::streams {

/// The device of the calling host thread.
int current_device();
/// cudaErrorInvalidResourceHandle for a stream of another device than the current one.
cudaError_t refuse(cudaStream_t stream);

/// Whether work in this stream is put off.
bool is_late(cudaStream_t stream);
/// Before work of the legacy stream, which runs at once: what the blocking streams of the current device have to do.
void before_legacy();
/// Puts work off; is_late(stream).
void put_off(cudaStream_t stream, std::function<void()> work);
/// The one or the other, as the stream asks; the work's own error where it runs at once.
template <class Work>
cudaError_t submit(cudaStream_t stream, Work work) {
  if (is_late(stream)) {
    put_off(stream, [work] { work(); });
    return cudaSuccess;
  }
  before_legacy();
  return work();
}

/// Does all that was put into the stream.
void finish(cudaStream_t stream);
/// Does all that was put into the current device's streams, or into any.
void finish_device();
void finish_all();
/// Forgets all that was put off.
void forget_all();

}  // namespace simt::streams
