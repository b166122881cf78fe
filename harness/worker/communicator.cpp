#include "worker/communicator.hpp"

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#ifdef LADDER_NCCL
#include <nccl.h>
#endif

namespace ladder {
namespace {

/// Calls `work` with a device current, then makes GPU 0 of this process current again.
template <class F>
void on_device(const Device& device, size_t gpu, F work) {
  check(cudaSetDevice(device.ordinals[gpu]), "choosing a device");
  work();
  check(cudaSetDevice(device.ordinals[0]), "choosing a device");
}

/// The part that both have: the host's all-gather, and the time that sums take on GPU 0.
class TimedCommunicator : public Communicator {
 public:
  TimedCommunicator(const Device& device, Ranks* ranks) : device_(device), ranks_(ranks) {}
  ~TimedCommunicator() override {
    for (const Span& span : spans_) cudaEventDestroy(span.begin), cudaEventDestroy(span.end);
  }
  TimedCommunicator(const TimedCommunicator&) = delete;
  TimedCommunicator& operator=(const TimedCommunicator&) = delete;

  void gather(const void* mine, size_t bytes, void* all) override {
    if (ranks_) return ranks_->gather(mine, bytes, all);
    std::memcpy(all, mine, bytes);
  }
  void sum(const std::vector<Part>& parts, size_t count) override {
    if (device_.rank > 0) return all_reduce(parts, count);  // rank 0 reports its times
    if (timed_ == spans_.size()) {
      spans_.emplace_back();
      check(cudaEventCreate(&spans_.back().begin), "making an event");
      check(cudaEventCreate(&spans_.back().end), "making an event");
    }
    const Span& span = spans_[timed_++];
    check(cudaEventRecord(span.begin, parts[0].stream), "recording an event");
    all_reduce(parts, count);
    check(cudaEventRecord(span.end, parts[0].stream), "recording an event");
  }
  double take_ms() override {
    double sum = 0;
    for (size_t i = 0; i < timed_; ++i) {
      float ms = 0;
      check(cudaEventSynchronize(spans_[i].end), "waiting for a sum over devices");
      check(cudaEventElapsedTime(&ms, spans_[i].begin, spans_[i].end), "reading the time of a sum over devices");
      sum += ms;
    }
    timed_ = 0;
    return sum;
  }

 protected:
  virtual void all_reduce(const std::vector<Part>& parts, size_t count) = 0;
  const Device& device_;
  Ranks* const ranks_;

 private:
  struct Span {
    cudaEvent_t begin = nullptr, end = nullptr;
  };
  std::vector<Span> spans_;
  size_t timed_ = 0;
};

#ifdef LADDER_NCCL

void check_nccl(ncclResult_t status, const std::string& what) {
  if (status != ncclSuccess) throw Error(what + ": NCCL says " + ncclGetErrorString(status));
}

class NcclCommunicator : public TimedCommunicator {
 public:
  NcclCommunicator(const Device& device, Ranks* ranks) : TimedCommunicator(device, ranks) {
    const size_t here = device.ordinals.size();
    std::vector<ncclUniqueId> of_ranks(size_t(device.ranks));
    ncclUniqueId id{};
    if (device.rank == 0) check_nccl(ncclGetUniqueId(&id), "beginning a communicator");
    gather(&id, sizeof id, of_ranks.data());
    communicators_.resize(here);
    check_nccl(ncclGroupStart(), "beginning a group");
    for (size_t gpu = 0; gpu < here; ++gpu) {
      on_device(device, gpu, [&] {
        check_nccl(ncclCommInitRank(&communicators_[gpu], device.devices(), of_ranks[0], int(device.rank * here + gpu)),
                   "making a communicator");
      });
    }
    check_nccl(ncclGroupEnd(), "making the communicators of all GPUs");
  }
  ~NcclCommunicator() override {
    for (const ncclComm_t communicator : communicators_) ncclCommDestroy(communicator);
  }
  void abort() override {
    for (const ncclComm_t communicator : communicators_) ncclCommAbort(communicator);
    communicators_.clear();
  }

 protected:
  void all_reduce(const std::vector<Part>& parts, size_t count) override {
    if (communicators_.empty()) throw Error("adding up over all GPUs: an earlier phase failed");
    check_nccl(ncclGroupStart(), "beginning a group");
    for (size_t gpu = 0; gpu < parts.size(); ++gpu)
      check_nccl(ncclAllReduce(parts[gpu].from, parts[gpu].to, count, ncclUint64, ncclSum, communicators_[gpu],
                               parts[gpu].stream),
                 "adding up over all GPUs");
    check_nccl(ncclGroupEnd(), "adding up over all GPUs");
  }

 private:
  std::vector<ncclComm_t> communicators_;
};

#endif

#ifndef LADDER_WORKER_CUDA

/// In place of NCCL on the CPU device: each device copies its words to the host, which adds them up with those of the
/// other ranks, and each copies the sums back. All of it is work of the streams, so that late streams delay it.
class HostCommunicator : public TimedCommunicator {
 public:
  HostCommunicator(const Device& device, Ranks* ranks) : TimedCommunicator(device, ranks) {
    places_.resize(device.ordinals.size());
    for (size_t gpu = 0; gpu < places_.size(); ++gpu) {
      on_device(device, gpu, [&] {
        for (cudaEvent_t* event : {&places_[gpu].given, &places_[gpu].taken})
          check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
      });
    }
    check(cudaEventCreateWithFlags(&added_, cudaEventDisableTiming), "making an event");
  }
  ~HostCommunicator() override {
    for (const Place& place : places_) {
      cudaFreeHost(place.words);
      cudaEventDestroy(place.given);
      cudaEventDestroy(place.taken);
    }
    cudaEventDestroy(added_);
  }
  void abort() override { failure_ = "adding up over all devices: an earlier phase failed"; }

 protected:
  void all_reduce(const std::vector<Part>& parts, size_t count) override {
    if (!failure_.empty()) throw Error(failure_);
    make_room(count);
    const size_t bytes = count * sizeof(unsigned long long);
    for (size_t gpu = 0; gpu < parts.size(); ++gpu) {
      Place& place = places_[gpu];
      const cudaStream_t stream = parts[gpu].stream;
      on_device(device_, gpu, [&] {
        for (const Place& other : places_) check(cudaStreamWaitEvent(stream, other.taken, 0), "waiting");
        check(cudaMemcpyAsync(place.words, parts[gpu].from, bytes, cudaMemcpyDeviceToHost, stream), "giving words");
        check(cudaEventRecord(place.given, stream), "recording an event");
      });
    }
    const cudaStream_t first = parts[0].stream;
    for (const Place& place : places_) check(cudaStreamWaitEvent(first, place.given, 0), "waiting for a device");
    additions_.push_back({this, count});
    check(cudaLaunchHostFunc(first, add_up, &additions_.back()), "adding up over all devices");
    check(cudaEventRecord(added_, first), "recording an event");
    for (size_t gpu = 0; gpu < parts.size(); ++gpu) {
      const cudaStream_t stream = parts[gpu].stream;
      on_device(device_, gpu, [&] {
        check(cudaStreamWaitEvent(stream, added_, 0), "waiting for the sums");
        check(cudaMemcpyAsync(parts[gpu].to, places_[0].words, bytes, cudaMemcpyHostToDevice, stream), "taking sums");
        check(cudaEventRecord(places_[gpu].taken, stream), "recording an event");
      });
    }
  }

 private:
  struct Place {
    unsigned long long* words = nullptr;  // page-locked
    cudaEvent_t given = nullptr, taken = nullptr;
  };
  struct Addition {
    HostCommunicator* of;
    size_t count;
  };

  /// Until the last sum was taken, its words stay.
  void make_room(size_t count) {
    if (count <= room_) return;
    for (Place& place : places_) {
      check(cudaEventSynchronize(place.taken), "waiting for the last sum");
      cudaFreeHost(place.words);
      check(cudaMallocHost(reinterpret_cast<void**>(&place.words), count * sizeof *place.words), "page-locking words");
    }
    additions_.clear();
    room_ = count;
  }
  static void add_up(void* addition) {
    const auto [of, count] = *static_cast<const Addition*>(addition);
    unsigned long long* const all = of->places_[0].words;
    for (size_t gpu = 1; gpu < of->places_.size(); ++gpu) {
      for (size_t i = 0; i < count; ++i) all[i] += of->places_[gpu].words[i];
    }
    try {
      if (of->ranks_) of->ranks_->sum(all, count);
    } catch (const std::exception& error) {  // no error leaves a stream's work
      of->failure_ = error.what();
    }
  }

  std::vector<Place> places_;
  cudaEvent_t added_ = nullptr;
  size_t room_ = 0;
  std::deque<Addition> additions_;
  std::string failure_;
};

#endif

}  // namespace

std::unique_ptr<Communicator> join_devices(Device& device, Ranks* ranks) {
  device.ranks = ranks ? ranks->count() : 1;
  device.rank = ranks ? ranks->rank() : 0;
  if (device.devices() == 1) return nullptr;
  std::unique_ptr<Communicator> made;
#if defined(LADDER_NCCL)
  made = std::make_unique<NcclCommunicator>(device, ranks);
#elif defined(LADDER_WORKER_CUDA)
  device.no_communicator = "needs NCCL to add up over " + std::to_string(device.devices()) +
                           " GPUs, and this build has none: install libnccl-dev, configure and build anew";
#else
  made = std::make_unique<HostCommunicator>(device, ranks);
#endif
  device.communicator = made.get();
  return made;
}

}  // namespace ladder
