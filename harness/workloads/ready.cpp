#include "workloads/ready.hpp"

#include <fmt/core.h>
#include <cstdio>
#include <utility>

namespace ladder {

ReadyWorkloads::ReadyWorkloads(std::filesystem::path scratch) : scratch_(std::move(scratch)) {}

const Workload& ReadyWorkloads::operator()(const Workload& workload) {
  if (const auto known = made_.find(workload.name); known != made_.end()) return known->second;
  Workload made = workload;
  for (const std::string& done : make_ready(made, scratch_)) fmt::print(stderr, "{}\n", done);
  return made_.emplace(workload.name, std::move(made)).first->second;
}

}  // namespace ladder
