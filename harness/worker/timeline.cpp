// What runs when on a GPU, through CUPTI: kernels, copies, fills and the host's waits between cudaProfilerStart and
// cudaProfilerStop. A library that the driver loads into a worker where CUDA_INJECTION64_PATH names it (`ladder
// timeline`). Writes the file that LADDER_TIMELINE names: {"events": [{"kind": "kernel", "copy", "fill" or "wait",
// "name", "stream", "start_us", "us", "bytes"}], "us", "dropped"}, with times in microseconds since the first event.
//
// Source: CUPTI's documentation, activity records and the callback API.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

constexpr size_t buffer_bytes = 8 << 20;

struct Event {
  const char* kind;
  std::string name;
  uint64_t begin, end, bytes;
  int64_t stream;  ///< -1: the host
};

std::mutex mutex;
std::vector<Event> events;
uint64_t from_ns = 0;  ///< 0: not watched

/// Of "void ladder::add_moves<float, 2>(float const*)": add_moves.
std::string short_name(const char* mangled) {
  int status = 1;
  char* whole = mangled ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status) : nullptr;
  std::string name = status == 0 ? whole : mangled ? mangled : "unnamed";
  std::free(whole);
  size_t end = 0;  // of the name without parameters: the first <, or ( that begins no "(anonymous namespace)"
  for (; end < name.size(); ++end) {
    if (name.compare(end, 11, "(anonymous ") == 0) end = name.find(')', end);
    if (name[end] == '<' || name[end] == '(') break;
  }
  name.resize(std::min(end, name.size()));
  if (const size_t space = name.rfind(' '); space != std::string::npos && name.find("::", space) == std::string::npos)
    name.erase(0, space + 1);
  if (const size_t scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
  return name;
}

const char* direction(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "within the device";
    default:
      return "other copy";
  }
}

void keep(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* k = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    events.push_back({"kernel", short_name(k->name), k->start, k->end, 0, k->streamId});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* c = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    events.push_back({"copy", direction(c->copyKind), c->start, c->end, c->bytes, c->streamId});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* f = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    events.push_back({"fill", "memset", f->start, f->end, f->bytes, f->streamId});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) {
    const auto* w = reinterpret_cast<const CUpti_ActivitySynchronization*>(record);
    if (w->type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT)  // the host does not wait there
      events.push_back({"wait", "the host waits", w->start, w->end, 0, -1});
  }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) keep(record);
  std::free(buffer);
}

void write(uint64_t until_ns) {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(mutex);
  std::erase_if(events, [&](const Event& e) { return e.end < from_ns || e.begin > until_ns; });
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.begin < b.begin; });
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  nlohmann::json listed = nlohmann::json::array();
  const uint64_t zero = events.empty() ? from_ns : events.front().begin;
  uint64_t last = zero;
  for (const Event& e : events) {
    last = std::max(last, e.end);
    listed.push_back({{"kind", e.kind},
                      {"name", e.name},
                      {"stream", e.stream},
                      {"start_us", double(int64_t(e.begin - zero)) * 1e-3},
                      {"us", double(e.end - e.begin) * 1e-3},
                      {"bytes", e.bytes}});
  }
  if (const char* file = std::getenv("LADDER_TIMELINE"))
    std::ofstream(file) << nlohmann::json{{"events", listed}, {"us", double(last - zero) * 1e-3}, {"dropped", dropped}};
  events.clear();
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* info) {
  const auto* call = static_cast<const CUpti_CallbackData*>(info);
  uint64_t now = 0;
  cuptiGetTimestamp(&now);
  if (id == CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000 && call->callbackSite == CUPTI_API_EXIT) from_ns = now;
  if (id == CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000 && call->callbackSite == CUPTI_API_ENTER) {
    write(now);
    from_ns = 0;
  }
}

bool works(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* why = "an unknown error";
  cuptiGetResultString(result, &why);
  std::fprintf(stderr, "timeline: %s: %s\n", what, why);
  return false;
}

}  // namespace

/// The driver calls this when the library is loaded; 1: well.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  CUpti_SubscriberHandle subscriber;
  // Kernels of graphs are recorded one by one if that is on before a graph is made.
  bool well = works(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "registering buffers");
  for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                          CUPTI_ACTIVITY_KIND_SYNCHRONIZATION})
    well = well && works(cuptiActivityEnable(kind), "switching a kind of record on");
  well = well && works(cuptiSubscribe(&subscriber, on_call, nullptr), "subscribing");
  for (const auto id :
       {CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000, CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000})
    well = well && works(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, id), "asking for a call");
  return well ? 1 : 0;
}
