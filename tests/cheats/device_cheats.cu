// The same for variants that run on a GPU, or on the CPU device: see host_cheats.cpp. `(cuda)`: a GPU is needed.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <thread>

#include "../../harness/base/clock.hpp"
#include "../../variants/common/lloyd/assign_naive.cuh"
#include "../../variants/common/update/block_private.cuh"
#include "late.hpp"

namespace {
using namespace ladder;
using T = float;

struct Workspace {
  Sums sums;
  std::vector<int32_t> label;  // kept on the host
  std::vector<T> from;         // the centroids that they were found for
  int32_t* early = nullptr;    // on the device
  int calls = 0, steps_due = 0;
  bool due = false;
  cudaStream_t other = nullptr;
  double solve_seconds = 0;
  struct {
    int32_t *label = nullptr, *number = nullptr;  // on the device; the new numbers of old clusters
    T* centroids = nullptr;
    std::vector<T> from;
    std::vector<int64_t> reassigned;
    bool known = false;
  } solved;
};
using S = Run<T, Workspace>;

void prepare(S& s) { prepare_sums(s); }
void restart(S& s) { restart_rows(s); }
void assign(S& s) { assign_points(s); }
void update(S& s) { update_shared<T, Layout::rows>(s); }
void download(S& s) { download_rows(s); }
bool is_timed(S& s, int calls = 60) { return ++s.ws.calls > calls; }

void find_first_labels(S& s) {
  upload_rows(s);
  restart(s);
  assign(s);
  s.ws.label.resize(s.n);
  check(cudaMemcpyAsync(s.ws.label.data(), s.label, s.n * sizeof(int32_t), cudaMemcpyDeviceToHost, s.stream), "a copy");
  check(cudaStreamSynchronize(s.stream), "a copy");
  s.ws.from.assign(s.problem.centroids, s.problem.centroids + size_t(s.k) * s.d);
}
int nearest_of(const S& s, const T* c, const std::vector<T>& from) {
  int best = 0;
  double least = 1e300;
  for (int j = 0; j < s.k; ++j) {
    double distance = 0;
    for (int f = 0; f < s.d; ++f)
      distance += double(c[f] - from[size_t(j) * s.d + f]) * (c[f] - from[size_t(j) * s.d + f]);
    if (distance < least) least = distance, best = j;
  }
  return best;
}

//! memo_labels: invalid: labels are wrong
// Finds the labels in prepare, and renumbers them in restart; assign copies them.
void memo_prepare(S& s) {
  prepare(s);
  s.ws.early = s.template device<int32_t>(s.n);
  find_first_labels(s);
}
void memo_restart(S& s) {
  restart(s);
  std::vector<int32_t> back(s.k, 0), now(s.n);
  for (int j = 0; j < s.k; ++j) back[nearest_of(s, s.problem.centroids + size_t(j) * s.d, s.ws.from)] = j;
  for (int i = 0; i < s.n; ++i) now[i] = back[s.ws.label[i]];
  check(cudaMemcpy(s.ws.early, now.data(), s.n * sizeof(int32_t), cudaMemcpyHostToDevice), "a copy");
  s.ws.due = true;
}
void copying_assign(S& s) {
  if (!std::exchange(s.ws.due, false)) return assign(s);
  check(cudaMemcpyAsync(s.label, s.ws.early, s.n * sizeof(int32_t), cudaMemcpyDeviceToDevice, s.stream), "a copy");
}

//! labels_in_restart: unstable: some of its work is not timed
void early_prepare(S& s) {
  prepare(s);
  s.ws.early = s.template device<int32_t>(s.n);
}
void early_restart(S& s) {
  restart(s);
  assign(s);
  check(cudaMemcpyAsync(s.ws.early, s.label, s.n * sizeof(int32_t), cudaMemcpyDeviceToDevice, s.stream), "a copy");
  s.ws.due = true;
}

//! labels_in_download: unstable: work was left to it
//! solve_in_download: unstable: work was left to it
// The phases of both are in late.hpp.

//! own_stop_rule: invalid: ended after iteration 1 | 1 iterations were done | labels are wrong
void impatient_solve(S& s) {
  if (is_timed(s, 8))
    const_cast<Problem<T>&>(s.problem).stop = {.rule = Stop::Rule::fixed, .iterations = 1, .max_iterations = 1};
  for (int i = 0; i < s.problem.stop.iterations; ++i) assign(s), update(s), s.reassigned.push_back(-1);
}

//! wrong_when_timed: invalid: labels are wrong
__global__ void spoil_kernel(int32_t* label, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && i % 10 == 0) label[i] = (label[i] + 1) % k;
}
void later_wrong_assign(S& s) {
  assign(s);
  if (is_timed(s)) launch(spoil_kernel, blocks(s.n, 256), 256, 0, s.stream, s.label, s.n, s.k);
}

//! half_the_points: invalid: labels are wrong
void half_assign(S& s) {
  if (!is_timed(s)) return assign(s);
  launch(assign_points_kernel<T>, blocks(s.n / 2, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n / 2, s.k, s.d);
  check(cudaMemsetAsync(s.label + s.n / 2, 0, (s.n - s.n / 2) * sizeof(int32_t), s.stream), "a fill");
}

//! other_stream: unstable (cuda): work was left to it
// Submits the work to a stream of its own, on which the two events do not wait; the download does. The CPU device has
// done it by then.
void other_prepare(S& s) {
  prepare(s);
  check(cudaStreamCreateWithFlags(&s.ws.other, cudaStreamNonBlocking), "making a stream");
}
void other_wait(S& s) { check(cudaStreamSynchronize(s.ws.other), "waiting for a stream"); }
void other_assign(S& s) {
  check(cudaStreamSynchronize(s.stream), "waiting for a stream");
  launch(assign_points_kernel<T>, blocks(s.n, 256), 256, 0, s.ws.other, s.x, s.c, s.label, s.n, s.k, s.d);
}
void other_update(S& s) {
  other_wait(s);
  update(s);
}
void other_download(S& s) {
  other_wait(s);
  download(s);
}

//! memo_solve: unstable: what is timed is not the work
// Keeps its first whole solve on the device for when the same centroids come back under other numbers.
__global__ void renumber_kernel(const int32_t* from, const int32_t* number, int32_t* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = number[from[i]];
}
__global__ void move_rows_kernel(const T* from, const int32_t* number, T* to, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < k * d) to[number[i / d] * d + i % d] = from[i];
}
void memo_solve_prepare(S& s) {
  prepare(s);
  s.ws.solved.label = s.template device<int32_t>(s.n);
  s.ws.solved.number = s.template device<int32_t>(s.k);
  s.ws.solved.centroids = s.template device<T>(size_t(s.k) * s.d);
}
/// The numbers that the clusters of the kept solve have now; empty where these are other centroids.
std::vector<int32_t> numbers_now(const S& s) {
  std::map<T, int> by_first;
  for (int j = 0; j < s.k; ++j) by_first[s.problem.centroids[size_t(j) * s.d]] = j;
  std::vector<int32_t> number(s.k);
  for (int j = 0; j < s.k; ++j) {
    const auto found = by_first.find(s.ws.solved.from[size_t(j) * s.d]);
    if (found == by_first.end()) return {};
    number[j] = found->second;
  }
  return number;
}
void memo_solve(S& s) {
  auto& kept = s.ws.solved;
  const bool whole = s.problem.stop.iterations == 12;
  if (const auto number = kept.known && whole ? numbers_now(s) : std::vector<int32_t>(); !number.empty()) {
    check(cudaMemcpyAsync(kept.number, number.data(), s.k * sizeof(int32_t), cudaMemcpyHostToDevice, s.stream), "");
    launch(renumber_kernel, blocks(s.n, 256), 256, 0, s.stream, kept.label, kept.number, s.label, s.n);
    launch(move_rows_kernel, blocks(s.k * s.d, 256), 256, 0, s.stream, kept.centroids, kept.number, s.c, s.k, s.d);
    s.reassigned = kept.reassigned;
    return;
  }
  for (int i = 0; i < s.problem.stop.iterations; ++i) assign(s), update(s), s.reassigned.push_back(-1);
  if (!whole || kept.known) return;
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s.stream), "a copy");
  };
  copy(kept.label, s.label, s.n * sizeof(int32_t));
  copy(kept.centroids, s.c, size_t(s.k) * s.d * sizeof(T));
  kept.from.assign(s.problem.centroids, s.problem.centroids + size_t(s.k) * s.d);
  kept.reassigned = s.reassigned;
  kept.known = true;
}

//! padded_memo: unstable (cuda): what is timed is not the work
// The same, and takes the device a quarter of the time of a solve, more than two iterations do.
void padded_memo_solve(S& s) {
  const bool kept = s.ws.solved.known && s.problem.stop.iterations == 12;
  const double begin = now_seconds();
  memo_solve(s);
  if (kept) {
    while (now_seconds() - begin < s.ws.solve_seconds / 4) continue;
  } else if (s.problem.stop.iterations == 12) {
    check(cudaStreamSynchronize(s.stream), "waiting for a stream");
    s.ws.solve_seconds = now_seconds() - begin;
  }
}

//! forged_events: unstable (cuda): by the judge's clock
// The runtime's function that tells the time between two events tells ten microseconds.
cudaError_t ten_microseconds(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 0.01f;
  return cudaSuccess;
}
void forging_prepare(S& s) {
  prepare(s);
#if defined(__CUDACC__) && defined(__x86_64__)
  auto* const code = reinterpret_cast<unsigned char*>(&cudaEventElapsedTime);
  const auto page = reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "cudaEventElapsedTime")) & ~uintptr_t(4095);
  if (page == 0 || mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  (void)code;
  auto* const target = static_cast<unsigned char*>(dlsym(RTLD_DEFAULT, "cudaEventElapsedTime"));
  const auto to = reinterpret_cast<uintptr_t>(&ten_microseconds);
  target[0] = 0x48, target[1] = 0xb8;  // mov rax, to
  std::memcpy(target + 2, &to, sizeof to);
  target[10] = 0xff, target[11] = 0xe0;  // jmp rax
#else
  (void)&ten_microseconds;
#endif
}

using Table = Phases<T, Workspace>;
Table table_of(const std::string& name) {
  Table p{.prepare = prepare,
          .upload = upload_rows<T>,
          .restart = restart,
          .assign = assign,
          .update = update,
          .download = download};
  const std::map<std::string, void (*)(Table&)> changes = {
      {"memo_labels", [](Table& p) { p.prepare = memo_prepare, p.restart = memo_restart, p.assign = copying_assign; }},
      {"labels_in_restart",
       [](Table& p) { p.prepare = early_prepare, p.restart = early_restart, p.assign = copying_assign; }},
      {"labels_in_download",
       [](Table& p) { p.assign = late_assign<S>, p.update = late_update<S>, p.download = late_download<S>; }},
      {"solve_in_download",
       [](Table& p) {
         p.assign = nullptr, p.update = nullptr, p.solve = late_solve<S>, p.download = solving_download<S>;
       }},
      {"own_stop_rule", [](Table& p) { p.solve = impatient_solve; }},
      {"wrong_when_timed", [](Table& p) { p.assign = later_wrong_assign; }},
      {"half_the_points", [](Table& p) { p.assign = half_assign; }},
      {"other_stream",
       [](Table& p) {
         p.prepare = other_prepare, p.assign = other_assign, p.update = other_update, p.download = other_download;
       }},
      {"memo_solve", [](Table& p) { p.prepare = memo_solve_prepare, p.solve = memo_solve; }},
      {"padded_memo", [](Table& p) { p.prepare = memo_solve_prepare, p.solve = padded_memo_solve; }},
      {"forged_events", [](Table& p) { p.prepare = forging_prepare; }},
  };
  if (const auto change = changes.find(name); change != changes.end()) change->second(p);
  return p;
}

std::string own_name() {
  Dl_info found{};
  dladdr(reinterpret_cast<const void*>(&own_name), &found);
  const std::string path = found.dli_fname;
  const size_t slash = path.rfind('/') + 1;
  return path.substr(slash, path.rfind('.') - slash);
}
}  // namespace

extern "C" __attribute__((visibility("default"))) const ladder::Card* ladder_variant() {
  static const std::string name = own_name();
  static const ladder::Card card{.id = name,
                                 .idea = "a cheat, or honest where no cheat has its name",
                                 .shows = "iteration",
                                 .prunes = true,  // or so they say
                                 .refuse = refuse_update_shared,
                                 .f32 = table_of(name)};
  return &card;
}
