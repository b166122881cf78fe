// A cold start: one whole run in a process that has done nothing before, as a program has it that is started for this
// one result. The points lie in pageable memory. What the harness does for itself (to read the points, to poison the
// results, to check them) counts in no part, and the process's end does not count either.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/machine.hpp"
#include "base/parallel.hpp"
#include "protocol/events.hpp"
#include "protocol/request.hpp"
#include "worker/apart/direct.hpp"
#include "worker/validate_solve.hpp"

namespace ladder {

/// The parts of a cold start: what each took, in seconds, in the order of their begin.
///
///   process  from the run's request for a process until its first statement: program and libraries are loaded
///   context  the device is chosen and has its context
///   module   the variant's module is loaded
///   import   of a peer: its library is imported (its Python's start is `process`)
///   prepare  device memory, page-locked memory, copies: the phase `prepare`
///   run      upload, restart, solve and download, with kernels that are loaded and graphs that are captured on the way
class ColdParts {
 public:
  template <class F>
  decltype(auto) time(const std::string& name, F work) {
    struct Clock {
      ColdParts& parts;
      const std::string& name;
      const double begin = now_seconds();
      ~Clock() { parts.add(name, now_seconds() - begin); }
    } clock{*this, name};
    return work();
  }
  void add(const std::string& name, double seconds) { seconds_.emplace_back(name, seconds); }
  /// As a scope's only sample, which is the sum of its parts.
  Timed row() const {
    Timed row;
    row.scope = "cold_start";
    double sum = 0;
    for (const auto& [name, seconds] : seconds_) row.parts_ms[name] = seconds * 1e3, sum += seconds;
    row.samples_ms = {sum * 1e3};
    row.median_ms = sum * 1e3;
    return row;
  }

 private:
  std::vector<std::pair<std::string, double>> seconds_;
};

/// A problem whose points lie in pageable memory of this process, row by row as in their files. A peer's stay mapped
/// and are read once before, since its own process maps them.
template <class T>
class PageableProblem {
 public:
  PageableProblem(const Request& request, bool mapped) : mapped_(request) {
    Problem<T>& p = mapped_.problem;
    const size_t points = size_t(p.n) * p.d, stored = p.sparse() ? size_t(p.nnz) : 0;
    if (mapped) {
      count_where(points, [&](size_t i) { return p.points[i] != T(0); });
      return;
    }
    const double memory = double(main_memory_bytes());
    if (double(points) * sizeof(T) > memory / 2)
      throw Refusal("the points take more than half of the host's memory, in which a cold start has them");
    p.points = copy(p.points, points);
    if (!p.sparse()) return;
    p.csr = {copy(p.csr.row_begin, size_t(p.n) + 1), copy(p.csr.column, stored), copy(p.csr.value, stored)};
  }
  Problem<T>& problem() { return mapped_.problem; }

 private:
  template <class E>
  const E* copy(const E* from, size_t count) {
    const std::shared_ptr<void> memory(std::malloc(std::max<size_t>(1, count * sizeof(E))), std::free);
    if (!memory) throw std::bad_alloc();
    parallel_copy(from, count, static_cast<E*>(memory.get()));
    memory_.push_back(memory);
    return static_cast<const E*>(memory.get());
  }
  MappedProblem<T> mapped_;
  std::vector<std::shared_ptr<void>> memory_;
};

/// The rest of a cold start, from the phase `prepare` on: its row, checked against the validated solve that the
/// session left in request.validated.
template <class T>
Timed cold_run(const Request& request, const Problem<T>& problem, const Device& device, const Card& card,
               const Axes& axes, ColdParts& parts) {
  DirectDriver<T> driver(problem, device, card, axes, nullptr, false);
  parts.add("prepare", driver.prepare_seconds());
  driver.forget();
  driver.poison_result();
  int iterations = 0;
  parts.time("run", [&] {
    driver.call(Act::upload);
    driver.call(Act::restart);
    iterations = driver.solve();
    driver.call(Act::download);
    driver.synchronize();
  });
  Timed row = parts.row();
  row.status = "ok";
  row.iterations = {iterations};
  SolveValidator<T> validator(driver, request, now_seconds());
  validator.load(request.validated);
  validator.check_sample(row.scope, row, iterations);
  if (validator.ok()) return row;
  row.status = "invalid";
  row.reason = validator.fault();
  return row;
}

}  // namespace ladder
