// Clocks: maps that never run backwards, rates without overflow, and the reference of a launcher.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/clock.h"

using namespace tailrace;

namespace {

TEST(ClockMap, IsMonotone) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    ClockMap map{random() >> 8, random() >> 8, (random() >> 31) + 1};
    uint64_t last = 0;
    for (uint64_t ticks = map.from_ticks - 1000; ticks < map.from_ticks + 1000000; ticks += random() % 1000) {
      uint64_t now = map.to_ns(ticks);
      ASSERT_GE(now, last);
      ASSERT_GE(now, map.from_ns);
      last = now;
    }
  }
}

TEST(ClockMap, ReachesBack) {
  ClockMap map{3'000'000'000, 5'000'000'000, 1ULL << 32, (1ULL << 32) / 3, 900'000'000};
  EXPECT_EQ(map.to_ns_before(3'000'000'000), 5'000'000'000u);
  EXPECT_EQ(map.to_ns_before(3'000'000'007), 5'000'000'007u);
  EXPECT_NEAR(static_cast<double>(map.to_ns_before(600'000'000)), 4'200'000'000.0, 2.0);
  EXPECT_EQ(map.to_ns_before(200'000'000), 4'100'000'000u) << "not before the process";
  EXPECT_EQ(map.to_ns_before(0), 4'100'000'000u);
}

TEST(ClockMap, MeetsItsEnd) {
  // A day of a 3 GHz counter, without overflow and to the nanosecond or so.
  ClockSample from{1'000'000, 5'000'000'000},
      to{1'000'000 + 3'000'000'000ULL * 86400, 5'000'000'000 + 86400 * 1'000'000'000ULL};
  ClockMap map{from.ticks, from.monotonic_ns, rate_between(from, to)};
  EXPECT_EQ(map.to_ns(from.ticks), from.monotonic_ns);
  // 32 bits of fraction on 2.6e14 ticks.
  EXPECT_NEAR(static_cast<double>(map.to_ns(to.ticks)), static_cast<double>(to.monotonic_ns), 65536.0);
}

TEST(ClockMap, PiecesJoin) {
  // As sealing chains them: each piece begins where the last one ended, and aims at the clock.
  std::mt19937_64 random(2);
  ClockSample at{0, 1'000'000};
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    uint64_t ticks = 1000 + random() % 1000000;
    ClockSample now{at.ticks + ticks, at.monotonic_ns + ticks * (90 + random() % 20) / 300};
    ClockMap map{at.ticks, at.monotonic_ns, rate_between(at, now)};
    for (uint64_t t = at.ticks; t <= now.ticks; t += 1 + ticks / 50) {
      ASSERT_GE(map.to_ns(t), last);
      last = map.to_ns(t);
    }
    at = {now.ticks, map.to_ns(now.ticks)};
  }
}

TEST(Clock, RateOfNoTimeIsOne) {
  EXPECT_EQ(rate_between({5, 5}, {5, 9}), 1ULL << 32);
  EXPECT_EQ(rate_between({5, 9}, {9, 9}), 1ULL << 32);
  EXPECT_EQ(rate_between({9, 9}, {5, 20}), 1ULL << 32);
}

TEST(Clock, SamplesAdvance) {
  for (ClockKind kind : {ClockKind::kMonotonic, ClockKind::kTsc}) {
    ClockSample last = sample_clock(kind);
    for (int i = 0; i < 1000; ++i) {
      ClockSample now = sample_clock(kind);
      ASSERT_GE(now.monotonic_ns, last.monotonic_ns);
      last = now;
    }
  }
}

TEST(Clock, ReferenceSurvivesText) {
  char text[96];
  Writer w(text, sizeof text);
  write_clock_reference(w);
  ClockReference reference = parse_clock_reference(w.view());
  EXPECT_EQ(reference.kind == ClockKind::kTsc, w.view() != "monotonic");
  if (reference.kind == ClockKind::kTsc) {
    EXPECT_LE(reference.sample.monotonic_ns, monotonic_ns());
    EXPECT_LE(reference.realtime_ns, realtime_ns());
  }
}

TEST(Clock, AWrongReferenceIsTheMonotonicClock) {
  for (const char *bad : {"", "tsc", "tsc:", "tsc:1", "tsc:1:", "tsc::2", "tsc:1:2x", "tsc:-1:2", "TSC:1:2",
                          "tsc:1:2:", "tsc:1:2:x", "tsc:99999999999999999999:1"}) {
    EXPECT_EQ(parse_clock_reference(bad).kind, ClockKind::kMonotonic) << bad;
  }
}

}  // namespace
