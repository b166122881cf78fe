#include "runner/child.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/foreign.hpp"
#include "base/text.hpp"

namespace ladder {
namespace {
namespace fs = std::filesystem;

/// A worker that is a shell script: its second argument is the request, its third the pipe of its reports.
End run_script(const std::string& script, double seconds, const Bounds& bounds) {
  const Scratch scratch;
  const fs::path program = scratch.path / "worker", request = scratch.path / "request";
  std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
  fs::permissions(program, fs::perms::owner_all);
  std::ofstream(request) << "{}";
  return run_child(
      program, request, seconds, [](const nlohmann::json&) {}, nullptr, bounds);
}

TEST(Child, IsStoppedBeyondTheMemoryThatItMayTake) {
  EXPECT_EQ(run_script("sleep 0.1", 20, {}).stopped, "");
  const End end = run_script("sleep 20", 20, {.memory = 1e-12});
  EXPECT_NE(end.stopped.find("GiB of memory"), std::string::npos) << end.stopped;
}

TEST(Child, EndsSoonAfterItsLastReport) {
  const End end = run_script("eval \"exec $3>&-\"; sleep 20", 20, {.ending = 0.2});
  EXPECT_EQ(end.stopped, "it closed its reports and did not end");
  EXPECT_EQ(run_script("eval \"exec $3>&-\"; sleep 0.1; exit 3", 20, {}).stopped, "");
}

TEST(Cleaned, KeepsTextAndTakesOutWhatMovesATerminal) {
  const std::string kept = "a\tb\nnäh – ≤ 𝄞";
  EXPECT_EQ(cleaned(kept), kept);
  EXPECT_EQ(cleaned("a\r\nb\rc"), "a\nb\nc");
  EXPECT_EQ(cleaned(std::string("\x1b[2J\0\x7f", 6)), "\uFFFD[2J\uFFFD\uFFFD");
  EXPECT_EQ(cleaned("\xc2\x9b"), "\uFFFD\uFFFD") << "a control character of two bytes";
  EXPECT_EQ(cleaned("\u00a0"), "\u00a0") << "the first that is none";
}

TEST(Cleaned, IsValidUtf8WhateverItIsGiven) {
  // Overlong forms, a surrogate, beyond the last character, cut off, a lone continuation.
  for (const char* text : {"\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5",
                           "\xe2\x82", "\xf0\x9d\x84", "\x80", "\xff"}) {
    const std::string found = cleaned(text);
    EXPECT_NO_THROW((void)nlohmann::json(found).dump()) << text;
    EXPECT_EQ(found.find_first_not_of("\uFFFD"), std::string::npos) << found;
  }
}

TEST(ForeignJson, IsShallowAndClean) {
  EXPECT_EQ(foreign_json(R"({"a": ["\u001b[2J", 1.5, null]})"), nlohmann::json({{"a", {"\uFFFD[2J", 1.5, nullptr}}}));
  EXPECT_TRUE(foreign_json("{").is_null());
  const std::string deep(100'000, '[');
  EXPECT_TRUE(foreign_json(deep + std::string(100'000, ']')).is_null());
  EXPECT_EQ(foreign_json("\"" + std::string(10'000, 'x') + "\"").get<std::string>().size(), 4000u);
}

}  // namespace
}  // namespace ladder
