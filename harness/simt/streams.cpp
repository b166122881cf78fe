#include "streams.hpp"

#include <simt.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fault.hpp"
#include "options.hpp"

struct CUstream_st {
  int device = 0;
  bool blocking = true;    // the legacy stream waits for it
  bool destroyed = false;  // by its owner; gone when its work is done
  std::deque<std::function<void()>> work;
};

namespace {

/// A place in a stream that has been reached, or not yet.
struct Mark {
  bool reached = true;
  CUstream_st* stream = nullptr;  // until it is reached
  std::chrono::steady_clock::time_point time;
};

}  // namespace

struct CUevent_st {
  std::shared_ptr<Mark> mark;  // of the last record; null before the first
  bool timed = true;
};

namespace simt::streams {
namespace {

thread_local int device_of_this_thread = 0;

// Work that was put off runs with the lock held: one piece after another, whichever host thread waits for it.
std::recursive_mutex& mutex() {
  static std::recursive_mutex& instance = *new std::recursive_mutex;
  return instance;
}
std::vector<CUstream_st*>& waiting() {  // behind mutex(): streams with work, in the order in which they got it
  static std::vector<CUstream_st*>& instance = *new std::vector<CUstream_st*>;
  return instance;
}
std::atomic<int> put_off_in_all = 0;

void do_one(CUstream_st* stream) {
  const std::function<void()> work = std::move(stream->work.front());
  stream->work.pop_front();
  --put_off_in_all;
  const int device = std::exchange(device_of_this_thread, stream->device);
  work();
  device_of_this_thread = device;
  if (!stream->work.empty()) return;
  std::erase(waiting(), stream);
  if (stream->destroyed) delete stream;
}

void finish_locked(CUstream_st* stream) {
  // What it does may wait for other streams, and may end with it.
  while (std::ranges::find(waiting(), stream) != waiting().end()) do_one(stream);
}

template <class Which>
void finish_those(Which which) {
  if (put_off_in_all == 0) return;
  std::lock_guard lock(mutex());
  for (;;) {
    const auto found = std::ranges::find_if(waiting(), which);
    if (found == waiting().end()) return;
    do_one(*found);
  }
}

void reach(const Mark& mark) {
  std::lock_guard lock(mutex());
  while (!mark.reached) do_one(mark.stream);
}

}  // namespace

int current_device() { return device_of_this_thread; }

cudaError_t refuse(cudaStream_t stream) {
  return stream && stream->device != current_device() ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

bool is_late(cudaStream_t stream) { return stream && options::late_streams; }

void before_legacy() {
  finish_those([](const CUstream_st* s) { return s->blocking && s->device == current_device(); });
}

void put_off(cudaStream_t stream, std::function<void()> work) {
  std::lock_guard lock(mutex());
  if (stream->work.empty()) waiting().push_back(stream);
  stream->work.push_back(std::move(work));
  ++put_off_in_all;
}

void finish(cudaStream_t stream) {
  if (!stream) return before_legacy();
  if (put_off_in_all == 0) return;
  std::lock_guard lock(mutex());
  finish_locked(stream);
}
void finish_device() {
  finish_those([](const CUstream_st* s) { return s->device == current_device(); });
}
void finish_all() {
  finish_those([](const CUstream_st*) { return true; });
}

void forget_all() {
  std::lock_guard lock(mutex());
  for (CUstream_st* stream : waiting()) {
    stream->work.clear();
    if (stream->destroyed) delete stream;
  }
  waiting().clear();
  put_off_in_all = 0;
}

namespace {
/// A call's own result, unless the context is lost.
cudaError_t done(cudaError_t result = cudaSuccess) {
  return lost_context() != cudaSuccess ? lost_context() : remember(result);
}
}  // namespace

}  // namespace simt::streams

using simt::streams::done;
namespace streams = simt::streams;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = simt::options::devices;
  return done();
}
cudaError_t cudaSetDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= simt::options::devices) return done(cudaErrorInvalidDevice);
  streams::device_of_this_thread = ordinal;
  return done();
}
cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = streams::current_device();
  return done();
}
cudaError_t cudaDeviceSynchronize() {
  streams::finish_device();
  return done();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = new CUstream_st{streams::current_device(), !(flags & cudaStreamNonBlocking), false, {}};
  return done();
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return done(cudaErrorInvalidResourceHandle);
  std::lock_guard lock(streams::mutex());
  if (stream->work.empty())
    delete stream;
  else
    stream->destroyed = true;  // as on a GPU, destroying a stream waits for nothing
  return done();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  streams::finish(stream);
  return done();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (!stream) return cudaStreamSynchronize(stream);
  std::lock_guard lock(streams::mutex());
  if (!stream->work.empty()) streams::do_one(stream);  // repeated queries make progress
  return stream->work.empty() ? done() : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  if (!event->mark) return done();
  if (streams::is_late(stream))
    streams::put_off(stream, [mark = event->mark] { streams::reach(*mark); });
  else
    streams::reach(*event->mark);
  return done();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!function) return done(cudaErrorInvalidValue);
  if (simt::lost_context() != cudaSuccess) return simt::lost_context();
  return done(streams::submit(stream, [=] {
    function(data);
    return cudaSuccess;
  }));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{nullptr, !(flags & cudaEventDisableTiming)};
  return done();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  delete event;
  return done();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = streams::refuse(stream); error != cudaSuccess) return done(error);
  event->mark = std::make_shared<Mark>();
  const auto reached = [mark = event->mark] {
    mark->time = std::chrono::steady_clock::now();
    mark->reached = true;
    return cudaSuccess;
  };
  if (streams::is_late(stream)) {
    event->mark->reached = false;
    event->mark->stream = stream;
  }
  return done(streams::submit(stream, reached));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  if (event->mark) streams::reach(*event->mark);
  return done();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event) return done(cudaErrorInvalidResourceHandle);
  std::lock_guard lock(streams::mutex());
  if (event->mark && !event->mark->reached) streams::do_one(event->mark->stream);
  return !event->mark || event->mark->reached ? done() : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (!event || !event->mark || !event->timed) return done(cudaErrorInvalidResourceHandle);
    if (!event->mark->reached) return done(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
  return done();
}

int simt_set_late_streams(int on) {
  streams::finish_all();
  return simt::options::late_streams.exchange(on != 0);
}
}
