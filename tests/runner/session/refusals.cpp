// A rung whose instructions a GPU lacks refuses it in a sentence. That is said before the device is touched, so it is
// tried here on GPUs that exist by their numbers alone.
#include <gtest/gtest.h>

#include <regex>

#include "session_helper.hpp"
#include "worker/module.hpp"

namespace {
using namespace ladder;
using namespace ladder::test;
namespace fs = std::filesystem;

/// A GPU by its compute capability, with what such a one has.
Device gpu(int compute_capability) {
  Device device;
  device.kind = DeviceKind::cuda;
  device.name = "a GPU of paper";
  device.ordinals = {0};
  device.compute_capability = compute_capability;
  device.multiprocessors = 40;
  device.memory_bytes = size_t(16) << 30;
  device.shared_bytes_optin = compute_capability == 75 ? 64 << 10 : 99 << 10;
  return device;
}

/// What `card` says itself of a small problem on that GPU. Of one whose tensor cores it would try out first, only where
/// it does not come to that.
std::string said(const Card& card, const Device& device) {
  Problem<float> p;
  p.n = 1000, p.k = 10, p.d = 4, p.element_bytes = 4;
  Axes axes;
  for (const Axis& axis : card.axes) axes.value[axis.name] = axis.standard;
  return card.refuse ? card.refuse(p, device, axes) : "";
}

/// The file and all that it includes of variants/common/.
std::set<fs::path> with_parts(const fs::path& file) {
  std::set<fs::path> found = {file};
  std::vector<fs::path> pending = {file};
  while (!pending.empty()) {
    const fs::path current = pending.back();
    pending.pop_back();
    std::ifstream in(current);
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("#include \"", 0) != 0) continue;
      const std::string name = line.substr(10, line.find('"', 10) - 10);
      const fs::path header = (current.parent_path() / name).lexically_normal();
      if (header.string().find("/variants/common/") == std::string::npos || !found.insert(header).second) continue;
      pending.push_back(header);
    }
  }
  return found;
}

TEST(Refusals, CodeForOneArchitectureIsForNoOther) {
  Card card;
  EXPECT_EQ(lacks_instructions(card, gpu(75)), "") << "no line `// for cuda:`";
  card.for_cuda = "90a";
  EXPECT_EQ(lacks_instructions(card, gpu(90)), "");
  EXPECT_EQ(lacks_instructions(card, gpu(75)),
            "its instructions (sm_90a) are those of compute capability 9.0, this GPU has 7.5");
  EXPECT_NE(lacks_instructions(card, gpu(100)), "");
  card.for_cuda = "80";
  EXPECT_EQ(lacks_instructions(card, gpu(86)), "") << "a later one of its generation";
  EXPECT_NE(lacks_instructions(card, gpu(90)), "");
  EXPECT_EQ(lacks_instructions(card, Device()), "") << "no GPU";
}

TEST(Refusals, TheLineOfAFileIsOnItsCard) {
  const fs::path module = fs::path(BUILD_FOLDER) / "tests/fixtures/contract/simt/t12_device_loop.so";
  EXPECT_EQ(load_card(module)->for_cuda, "90a");
  EXPECT_EQ(load_card(module.parent_path() / "t8_graph.so")->for_cuda, "");
}

TEST(Refusals, ASessionEndsWithTheSentence) {
  if (HOME_KIND != std::string_view("simt")) GTEST_SKIP() << "native code is tried beside the CPU device";
  const std::vector<float> points(40, 1);
  for (const auto& [kind, variant] : built("tests/fixtures/contract")) {
    if (variant.id != "t14_slow_prepare") continue;  // its card refuses nothing itself
    const Outcome outcome =
        validate_variant(kind, variant, points, {points.begin(), points.begin() + 4}, 4, Stop(), {}, {}, gpu(75));
    EXPECT_EQ(outcome.refused, "its instructions (sm_90a) are those of compute capability 9.0, this GPU has 7.5");
    EXPECT_EQ(outcome.fault, "");
    return;
  }
  FAIL() << "tests/fixtures/contract/t14_slow_prepare is not built";
}

/// Rungs that are compiled for Hopper alone, and those whose tensor-core products begin with 8.0, which a T4 compiles
/// as a trap (gemm/mma_sm80.cuh).
TEST(Refusals, EveryRungThatAGpuLacksTheInstructionsFor) {
  int hopper = 0, ampere = 0;
  for (const auto& [kind, variant] : built("variants")) {
    const Card& card = *load_card(variant.modules.at(kind));
    fs::path source;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_FOLDER) / "variants"))
      if (entry.path().filename() == variant.id + ".cu") source = entry.path();
    if (source.empty()) continue;  // native code and peers have no instructions of a GPU
    SCOPED_TRACE(variant.id);
    bool products = false;
    for (const fs::path& file : with_parts(source)) products = products || file.filename() == "mma_sm80.cuh";
    for (const int other : {75, 80, 86, 89, 100, 120}) {
      if (card.for_cuda.empty() && !(products && other < 80)) continue;
      const std::string why = card.for_cuda.empty() ? said(card, gpu(other)) : lacks_instructions(card, gpu(other));
      const std::string here = std::to_string(other / 10) + "." + std::to_string(other % 10);
      EXPECT_TRUE(std::regex_search(why, std::regex("compute capability [89]\\.0"))) << "on " << other << ": " << why;
      EXPECT_NE(why.find(here), std::string::npos) << why;
    }
    hopper += card.for_cuda == "90a";
    ampere += card.for_cuda.empty() && products;
  }
#ifndef __SANITIZE_ADDRESS__  // that build has few rungs
  EXPECT_GT(hopper, 0);
  EXPECT_GT(ampere, 0);
#endif
}

}  // namespace
