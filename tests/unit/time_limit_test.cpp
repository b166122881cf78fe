// How long a session may take where nobody says: from the work that it has to do, not the same for all.
#include <gtest/gtest.h>

#include "runner/session.hpp"

namespace {
using namespace ladder;

double limit(int64_t n, int d, int k, std::vector<std::string> scopes, DeviceKind kind = DeviceKind::simt) {
  Workload w;
  w.n = n;
  w.d = d;
  w.k = k;
  w.stop.rule = Stop::Rule::fixed;
  w.stop.iterations = 20;
  Session session;
  session.setting.device = kind;
  session.scopes = std::move(scopes);
  return time_limit_of(w, session, RunOptions());
}

TEST(TimeLimit, FollowsFromTheWork) {
  EXPECT_LE(limit(2000, 48, 40, {"iteration"}), 25) << "an endless loop on a tiny problem is not waited for";
  EXPECT_GT(limit(20000, 100, 100, {"solve"}), 1.5 * limit(2000, 48, 40, {"solve"}));
  EXPECT_GT(limit(20000, 100, 100, {"solve"}), limit(20000, 100, 100, {"assign"})) << "a solve is many iterations";
  EXPECT_EQ(limit(300000, 408, 5000, {"solve"}), 300) << "nothing waits longer";
  EXPECT_LT(limit(20000, 100, 100, {"solve"}, DeviceKind::cuda), limit(20000, 100, 100, {"solve"}));
}

}  // namespace
