#include "base/power.hpp"

#include <gtest/gtest.h>

namespace {
using ladder::PowerMeter;

TEST(Power, IsThatOfTheGpuWithThisAddress) {
  const auto power = PowerMeter("0000:1B:00.0", FAKE_NVML).read();
  ASSERT_TRUE(power);
  EXPECT_DOUBLE_EQ(power->watts, 412.5);
  EXPECT_DOUBLE_EQ(power->limit, 700);
}

TEST(Power, IsNotKnownOfAnotherGpu) { EXPECT_FALSE(PowerMeter("0000:2C:00.0", FAKE_NVML).read()); }

TEST(Power, IsNotKnownOfAGpuWithoutAMeter) { EXPECT_FALSE(PowerMeter("0000:3D:00.0", FAKE_NVML).read()); }

TEST(Power, IsNotKnownWithoutTheDriversLibrary) {
  EXPECT_FALSE(PowerMeter("0000:1B:00.0", "libnot-there.so.1").read());
}

TEST(Power, IsNotKnownWhereTheLibraryIsAnother) { EXPECT_FALSE(PowerMeter("0000:1B:00.0", "libm.so.6").read()); }

}  // namespace
