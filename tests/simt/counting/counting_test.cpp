// Counting on the CPU device: what an access of a warp costs, and how the notes of its lanes become instructions.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "simt/counting/code.hpp"
#include "simt/counting/rules.hpp"
#include "simt/counting/text/device_text.hpp"
#include "simt/counting/trace.hpp"

namespace simt::counting {
namespace {

std::map<uint64_t, Block> blocks;  // of the made-up program of a test
std::map<uint64_t, Parts> joins;
std::set<uint64_t> loaded_before;

}  // namespace

const Block& block_at(uint64_t place) { return blocks[place]; }
Access access_at(uint64_t place) {
  return {joins.contains(place) ? std::optional(joins.at(place)) : std::nullopt, loaded_before.contains(place)};
}

namespace {

template <class Address>
std::array<uint64_t, 32> addresses(Address of_lane) {
  std::array<uint64_t, 32> all;
  for (uint64_t lane = 0; lane < 32; ++lane) all[lane] = of_lane(lane);
  return all;
}

constexpr uint32_t every_lane = ~0u;

TEST(CostOf, GlobalMemoryIsCountedInSectors) {
  const auto sectors = [](auto of_lane, int size_log2 = 2, uint32_t mask = every_lane) {
    return cost_of(Kind::global_load, size_log2, addresses(of_lane), mask).units;
  };
  EXPECT_EQ(sectors([](uint64_t lane) { return 4096 + 4 * lane; }), 4u) << "floats side by side";
  EXPECT_EQ(sectors([](uint64_t lane) { return 4096 + 8 * lane; }, 3), 8u) << "doubles side by side";
  EXPECT_EQ(sectors([](uint64_t) { return 4096; }), 1u) << "one word for all";
  EXPECT_EQ(sectors([](uint64_t lane) { return 4096 + 192 * lane; }), 32u) << "rows of their own";
  EXPECT_EQ(sectors([](uint64_t lane) { return 4096 + 16 + 4 * lane; }), 5u) << "from the middle of a sector";
  EXPECT_EQ(sectors([](uint64_t lane) { return 4096 + 4 * lane; }, 2, 0xff), 1u) << "eight lanes";
}

TEST(CostOf, ASectorThatIsCopiedCountsForEachSectorOfSharedMemory) {
  const auto sectors = [](uint64_t to, uint64_t swapped = 0) {  // a row of 12 times 16 bytes
    const auto of_lane = [&](uint64_t lane) { return copied(4096 + 16 * lane, to + 16 * (lane ^ swapped)); };
    return cost_of(Kind::global_load, 4, addresses(of_lane), 0xfff).units;
  };
  EXPECT_EQ(sectors(0), 6u);
  EXPECT_EQ(sectors(208), 12u) << "from the middle of a sector: each half goes to another one";
  EXPECT_EQ(sectors(0, 1), 6u) << "halves of one sector change places";
}

TEST(CostOf, SharedMemoryIsCountedInPassesOverItsBanks) {
  const auto passes = [](auto of_lane, int size_log2 = 2) {
    return cost_of(Kind::shared_load, size_log2, addresses(of_lane), every_lane);
  };
  EXPECT_EQ(passes([](uint64_t lane) { return 4 * lane; }).units, 1u);
  EXPECT_EQ(passes([](uint64_t) { return 64; }).units, 1u) << "the same word is shared";
  EXPECT_EQ(passes([](uint64_t lane) { return 8 * lane; }).units, 2u) << "every second bank";
  EXPECT_EQ(passes([](uint64_t lane) { return 128 * lane; }).units, 32u) << "one bank";
  EXPECT_EQ(passes([](uint64_t lane) { return 132 * lane; }).units, 1u) << "a row of 33 words";
  const Cost wide = passes([](uint64_t lane) { return 16 * lane; }, 4);
  EXPECT_EQ(wide.units, 4u) << "quarters of the warp";
  EXPECT_EQ(wide.ideal, 4u);
}

TEST(CostOf, LanesOfAnAtomicWaitForEachOther) {
  const auto steps = [](Kind kind, auto of_lane) { return cost_of(kind, 2, addresses(of_lane), every_lane).units; };
  EXPECT_EQ(steps(Kind::global_atomic, [](uint64_t) { return 4096; }), 32u);
  EXPECT_EQ(steps(Kind::global_atomic, [](uint64_t lane) { return 4096 + 4 * lane; }), 4u) << "a step per sector";
  EXPECT_EQ(steps(Kind::shared_atomic, [](uint64_t lane) { return 4 * lane; }), 1u);
  EXPECT_EQ(steps(Kind::shared_atomic, [](uint64_t lane) { return 4 * (lane % 8); }), 4u);
  EXPECT_EQ(steps(Kind::constant_load, [](uint64_t lane) { return 4 * (lane / 16); }), 2u);
}

/// The notes of one warp of a made-up program; a place is a small number.
class Warp : public testing::Test {
 protected:
  void SetUp() override {
    blocks.clear();
    joins.clear();
    loaded_before.clear();
    trace.start_block(32, counts);
  }
  void code(int lane, uint64_t place) { note(lane, place, Kind::code, 0); }
  void load(int lane, uint64_t place, uint64_t address) { note(lane, place, Kind::global_load, address); }
  void note(int lane, uint64_t place, Kind kind, uint64_t value) {
    room &= trace.add(lane, reinterpret_cast<void*>(place), kind, kind == Kind::code ? 0 : 2, value);
  }
  PlaceCounts at(uint64_t place, Kind kind) {
    return counts.at(Place(0, reinterpret_cast<void*>(place), kind, kind == Kind::code ? 0 : 2));
  }
  void end_all() {
    for (int lane = 0; lane < 32; ++lane) trace.end(lane);
    trace.replay();
  }

  KernelCounts counts;
  Trace trace;
  bool room = true;
};

TEST_F(Warp, LanesAtOnePlaceAreOneInstruction) {
  for (int lane = 0; lane < 32; ++lane) {
    code(lane, 10);
    load(lane, 11, 4096 + 4 * uint64_t(lane));
  }
  end_all();
  EXPECT_EQ(at(11, Kind::global_load).requests, 1u);
  EXPECT_EQ(at(11, Kind::global_load).lanes, 32u);
  EXPECT_EQ(at(11, Kind::global_load).units, 4u);
  EXPECT_EQ(at(10, Kind::code).parted, 0u);
}

TEST_F(Warp, AStoreToSharedMemoryChangesNothingInGlobalMemory) {
  const auto loads_again_after = [&](Kind between, uint64_t second = 4096) {
    SetUp();
    counts = {};
    for (int lane = 0; lane < 32; ++lane) {
      load(lane, 11, 4096 + 4 * uint64_t(lane));
      note(lane, 12, between, 64);
      load(lane, 13, second + 4 * uint64_t(lane));
    }
    end_all();
    EXPECT_EQ(at(11, Kind::global_load).requests, 1u);
    return at(13, Kind::global_load).requests;
  };
  EXPECT_EQ(loads_again_after(Kind::shared_store), 0u);
  EXPECT_EQ(loads_again_after(Kind::shared_atomic), 0u);
  EXPECT_EQ(loads_again_after(Kind::shared_atomic, 4100), 1u) << "another address";
  EXPECT_EQ(loads_again_after(Kind::global_store), 1u);
  EXPECT_EQ(loads_again_after(Kind::global_atomic), 1u);
  EXPECT_EQ(loads_again_after(Kind::together), 1u) << "a barrier: other threads may have stored";
  EXPECT_EQ(loads_again_after(Kind::shared_load), 1u) << "g++ loads it again, with nothing in its way";
}

TEST_F(Warp, ALoadThatIsTakenOutOfItsLoopCountsOnce) {
  const auto loads_of = [&](Kind between) {
    trace = {};
    trace.start_block(32, counts);
    counts = {};
    for (int lane = 0; lane < 32; ++lane) {
      for (uint64_t round = 0; round < 5; ++round) {
        code(lane, 20);
        load(lane, 21, 4096);
        load(lane, 22, 8192 + 4 * round);
        if (round == 2) note(lane, 23, between, 64);
      }
    }
    end_all();
    EXPECT_EQ(at(22, Kind::global_load).requests, 5u);
    return at(21, Kind::global_load).requests;
  };
  EXPECT_EQ(loads_of(Kind::shared_load), 5u);
  loaded_before = {21};
  EXPECT_EQ(loads_of(Kind::shared_load), 1u);
  EXPECT_EQ(loads_of(Kind::global_store), 2u) << "of an outer loop: then the inner one begins anew";
  EXPECT_EQ(loads_of(Kind::together), 2u);
}

TEST(DeviceText, WhatNvccDoesNotSeeIsForTheCpuAlone) {
  const std::string text =
      "#pragma once\n#ifdef __CUDACC__\ngpu();\n#else\n#if A\ncpu();\n#endif\ncpu();\n#endif\nboth();\n"
      "  #ifndef __CUDACC__\ncpu();\n#else\ngpu();\n#endif\n#if A\nboth();\n#else\nboth();\n#endif\n";
  std::istringstream lines(text);
  unsigned number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.ends_with("();")) continue;
    EXPECT_EQ(is_for_cpu_alone(text, number), line == "cpu();") << number << ": " << line;
  }
  EXPECT_FALSE(is_for_cpu_alone("no/such/file.cu", 3u));
}

TEST_F(Warp, JoinedAccessesAreOneWiderInstruction) {
  joins[11] = {{.size_log2 = 4, .shift = -8}};
  for (const uint64_t place : {12, 13, 14}) joins[place] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const uint64_t row = 4096 + 64 * uint64_t(lane);  // the upper half of each second sector, if it were not shifted
    code(lane, 10);
    load(lane, 11, row + 24);
    load(lane, 12, row + 16);
    load(lane, 13, row + 20);
    load(lane, 14, row + 28);
    load(lane, 15, row + 32);
  }
  end_all();
  EXPECT_EQ(at(11, Kind::global_load).requests, 0u) << "not as 4 bytes";
  const PlaceCounts wide = counts.at(Place(0, reinterpret_cast<void*>(11), Kind::global_load, 4));
  EXPECT_EQ(wide.requests, 1u);
  EXPECT_EQ(wide.lanes, 32u);
  EXPECT_EQ(wide.units, 32u) << "a sector of each lane: the 16 bytes begin at the lowest address";
  EXPECT_EQ(at(12, Kind::global_load).requests + at(14, Kind::global_load).requests, 0u);
  EXPECT_EQ(at(15, Kind::global_load).requests, 1u) << "not joined";
}

TEST_F(Warp, SidesOfABranchRunByThemselvesAndMeetBehindIt) {
  blocks[10].meets_at = 40;  // 10: if (lane < 8) 20; else 30; then 40
  for (int lane = 0; lane < 32; ++lane) {
    code(lane, 10);
    code(lane, lane < 8 ? 20 : 30);
    load(lane, lane < 8 ? 21 : 31, 4096);
    code(lane, 40);
    load(lane, 41, 4096);
  }
  end_all();
  EXPECT_EQ(at(21, Kind::global_load).lanes, 8u);
  EXPECT_EQ(at(31, Kind::global_load).lanes, 24u);
  EXPECT_EQ(at(41, Kind::global_load).requests, 1u) << "together again";
  EXPECT_EQ(at(41, Kind::global_load).lanes, 32u);
  EXPECT_EQ(at(10, Kind::code).parted, 1u);
}

TEST_F(Warp, LanesThatLeaveALoopWaitForTheOthersBehindIt) {
  blocks[20].meets_at = 30;  // lane l goes through 20 l + 1 times; then 30
  for (int lane = 0; lane < 32; ++lane) {
    code(lane, 10);
    for (int turn = 0; turn <= lane; ++turn) {
      code(lane, 20);
      load(lane, 21, 4096 + 4 * uint64_t(lane));
    }
    code(lane, 30);
    load(lane, 31, 4096);
  }
  end_all();
  EXPECT_EQ(at(21, Kind::global_load).requests, 32u) << "as often as the lane that stays longest";
  EXPECT_EQ(at(21, Kind::global_load).lanes, 32u * 33 / 2);
  EXPECT_EQ(at(31, Kind::global_load).requests, 1u);
}

TEST_F(Warp, LanesThatWaitForALoopThatYieldsGoOnToTheNextOperationOfTheWarp) {
  blocks[10].meets_at = 30;  // 10: if (lane < 31) 20, three times; then 30, and an operation of the warp
  blocks[20].meets_at = 30;
  const auto run = [&](bool yields) {
    blocks[20].yields = yields;
    trace.start_block(32, counts);
    counts = {};
    for (int lane = 0; lane < 32; ++lane) {
      code(lane, 10);
      for (int round = 0; round < (lane < 31 ? 3 : 0); ++round) {
        code(lane, 20);
        note(lane, 21, Kind::shared_atomic, 64);
      }
      code(lane, 30);
      load(lane, 31, 4096);
      note(lane, 32, Kind::together, 0);
      load(lane, 33, 4096);
    }
    end_all();
    EXPECT_EQ(at(21, Kind::shared_atomic).requests, 3u);
    EXPECT_EQ(at(32, Kind::together).requests, 1u);
    EXPECT_EQ(at(33, Kind::global_load).requests, 1u) << "together again";
    EXPECT_EQ(at(31, Kind::global_load).lanes, 32u);
    return at(31, Kind::global_load).requests;
  };
  EXPECT_EQ(run(false), 1u);
  EXPECT_EQ(run(true), 2u);
}

TEST_F(Warp, LanesThatWaitForALoopThatYieldsMeetTheOthersBehindTheBranchAroundIt) {
  blocks[10].meets_at = 40;  // 10: if (lane < 16) { 20: if (lane < 8) 30, twice; then 35 }; then 40
  blocks[20].meets_at = blocks[30].meets_at = 35;
  blocks[30].yields = true;
  for (int lane = 0; lane < 32; ++lane) {
    code(lane, 10);
    if (lane < 16) code(lane, 20);
    for (int round = 0; round < (lane < 8 ? 2 : 0); ++round) code(lane, 30);
    if (lane < 16) code(lane, 35);
    code(lane, 40);
  }
  end_all();
  EXPECT_EQ(at(30, Kind::code).requests, 2u);
  EXPECT_EQ(at(35, Kind::code).requests, 2u) << "each by themselves";
  EXPECT_EQ(at(40, Kind::code).requests, 2u) << "lanes 16 to 31 went on as well, as they waited for the loop, too";
}

TEST_F(Warp, RoundsOfAnUnrolledLoopThatAreOverRunFirst) {
  blocks[20].meets_at = 30;
  blocks[20].unrolled = {20};
  blocks[20].unrolled_by = 4;
  for (int lane = 0; lane < 32; ++lane) {
    code(lane, 10);
    for (int turn = 0; turn < (lane < 4 ? 4 : 3); ++turn) {
      code(lane, 20);
      load(lane, 21, 4096 + 4 * uint64_t(lane));
    }
    code(lane, 30);
    load(lane, 31, 4096);
  }
  end_all();
  EXPECT_EQ(at(21, Kind::global_load).requests, 3u + 4);
  EXPECT_EQ(at(21, Kind::global_load).lanes, 3u * 28 + 4 * 4);
  EXPECT_EQ(at(31, Kind::global_load).requests, 1u) << "together behind it";
}

TEST_F(Warp, LanesWithAsManyRoundsThatAreOverStayTogether) {
  blocks[20].meets_at = 30;
  blocks[20].unrolled = {20};
  blocks[20].unrolled_by = 4;
  for (int lane = 0; lane < 32; ++lane) {
    for (int turn = 0; turn < (lane < 4 ? 9 : 5); ++turn) code(lane, 20);
    code(lane, 30);
  }
  end_all();
  EXPECT_EQ(at(20, Kind::code).requests, 1u + 8);
  EXPECT_EQ(at(30, Kind::code).requests, 1u);
}

TEST_F(Warp, AGuardedLoopIsEnteredByTheLanesThatRunARound) {
  for (const uint64_t place : {10, 20, 21, 22, 23, 30}) blocks[place].is_beside_guarded = true;
  blocks[20].guarded = {.operations = {}, .header = {20, 21}, .inside = {22, 23}};  // 20, 21: while (...) { 22; 23 }
  const auto entered_with = [&](int rounds_of_lane_0, int rounds) {
    trace.start_block(32, counts);
    counts = {};
    for (int lane = 0; lane < 32; ++lane) {
      for (int turn = 0; turn < 2; ++turn) {
        code(lane, 10);
        const int its = lane == 0 ? rounds_of_lane_0 : rounds;
        for (int round = 0; round <= its; ++round) {
          code(lane, 20);
          code(lane, 21);
          if (round == its) break;
          code(lane, 22);
          code(lane, 23);
        }
        code(lane, 30);
      }
    }
    end_all();
    return counts.at(Place(0, reinterpret_cast<void*>(20), Kind::loop_entered, 0)).lanes;
  };
  EXPECT_EQ(entered_with(3, 3), 2u * 32);
  EXPECT_EQ(entered_with(0, 1), 2u * 31);
  EXPECT_EQ(entered_with(5, 0), 2u);
  EXPECT_EQ(entered_with(0, 0), 0u);
}

TEST_F(Warp, RoundsOfAnUnrolledLoopHaveLoadsInCommon) {
  blocks[20].meets_at = 30;
  blocks[20].unrolled = {20};
  blocks[20].unrolled_by = 4;
  blocks[20].joined.loads = {{21, 4}};
  const auto run = [&](int rounds_of_lane_0) {
    trace.start_block(32, counts);
    counts = {};
    for (int lane = 0; lane < 32; ++lane) {
      code(lane, 10);
      for (int round = 0; round < (lane == 0 ? rounds_of_lane_0 : 10); ++round) {
        code(lane, 20);
        note(lane, 21, Kind::shared_load, 4096 + 4 * uint64_t(round));
      }
      code(lane, 30);
    }
    end_all();
  };
  const auto requests = [&](int size_log2) {
    return counts.at(Place(0, reinterpret_cast<void*>(21), Kind::shared_load, size_log2)).requests;
  };
  run(10);
  EXPECT_EQ(requests(4), 2u);
  EXPECT_EQ(requests(2), 2u) << "the rounds that are over";
  run(6);
  EXPECT_EQ(requests(4), 0u) << "lanes differ";
}

TEST_F(Warp, RoundsOfALoopThatIsUnrolledWholeHaveLoadsInCommonFromTheFirstAlignedOneOn) {
  blocks[20].meets_at = 30;
  blocks[20].unrolled = {20};
  blocks[20].unrolled_by = 4;
  blocks[20].joined = {.loads = {{21, 3}}, .of_all = true};
  const auto run = [&](uint64_t first, int rounds) {
    trace.start_block(32, counts);
    counts = {};
    for (int lane = 0; lane < 32; ++lane) {
      code(lane, 10);
      for (int round = 0; round < rounds; ++round) {
        code(lane, 20);
        note(lane, 21, Kind::shared_load, first + 4 * uint64_t(round));
      }
      code(lane, 30);
    }
    end_all();
    const auto requests = [&](int size_log2) {
      return counts.at(Place(0, reinterpret_cast<void*>(21), Kind::shared_load, size_log2)).requests;
    };
    return std::pair(requests(2), requests(3));
  };
  EXPECT_EQ(run(4096, 8), std::pair(0ul, 4ul));
  EXPECT_EQ(run(4100, 7), std::pair(1ul, 3ul)) << "the first one by itself";
  EXPECT_EQ(run(4100, 1), std::pair(1ul, 0ul));
  blocks[20].joined.of_all = false;
  EXPECT_EQ(run(4096, 7), std::pair(3ul, 2ul)) << "by 4, and three rounds that are over";
}

TEST_F(Warp, ALaneWithFullNotesDoesNotPartFromTheOthers) {
  int turns = 0;
  const int all = 10000;
  while (turns < all) {
    room = true;
    for (; turns < all && room; ++turns) {
      for (int lane = 0; lane < 32; ++lane) {
        code(lane, 20);
        load(lane, 21, 4096 + 4 * uint64_t(lane));
      }
    }
    trace.replay();
    for (int lane = 0; lane < 32; ++lane) EXPECT_TRUE(trace.has_room(lane));
  }
  end_all();
  EXPECT_EQ(at(21, Kind::global_load).requests, uint64_t(all));
  EXPECT_EQ(at(21, Kind::global_load).lanes, uint64_t(all) * 32);
}

}  // namespace
}  // namespace simt::counting
