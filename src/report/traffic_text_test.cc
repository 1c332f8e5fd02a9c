#include "report/traffic_text.h"

#include <gtest/gtest.h>

namespace ng::report {
namespace {

RunTraffic of_two_ranks() {
  RunTraffic traffic{.ranks = 2};
  traffic.sent[static_cast<size_t>(Traffic::gradients)] = 1024;
  traffic.sent[static_cast<size_t>(Traffic::weights)] = 2048;
  traffic.sent[static_cast<size_t>(Traffic::scales)] = 7;
  traffic.baselines = {4096, 2048};
  return traffic;
}

TEST(TrafficText, SaysHowMuchLessOrMoreThanTheBaselines) {
  EXPECT_EQ(traffic_text(of_two_ranks()),
            "3.0 KiB a step, 25 % less than fp32+bf16, 50 % more than bf16+bf16");
  RunTraffic divided = of_two_ranks();
  divided.sent[static_cast<size_t>(Traffic::activations)] = 5 << 20;
  EXPECT_TRUE(traffic_text(divided).ends_with("bf16+bf16; and 5.0 MiB of activations"))
      << traffic_text(divided);
}

TEST(TrafficText, SaysWhereBytesAreThoseOfABaseline) {
  RunTraffic traffic = of_two_ranks();
  traffic.baselines = {3072, 3080};  // the second 0.3 % more
  EXPECT_EQ(traffic_text(traffic),
            "3.0 KiB a step, as many bytes as fp32+bf16, about as many bytes as bf16+bf16");
  EXPECT_EQ(traffic_section(traffic, History("no such file")).bars[1].bars[1].text,
            "3.0 KiB; this run as many bytes");
}

TEST(TrafficText, SectionHasABarForTheRunAndEachBaseline) {
  const Section section = traffic_section(of_two_ranks(), History("no such file"));
  ASSERT_EQ(section.bars.size(), 2u);
  EXPECT_TRUE(section.bars[0].bars.empty()) << "nothing was counted yet";
  ASSERT_EQ(section.bars[1].bars.size(), 3u);
  EXPECT_EQ(section.bars[1].bars[0].value, 3072);
  EXPECT_EQ(section.bars[1].bars[2].text, "2.0 KiB; this run 50 % more");
}

}  // namespace
}  // namespace ng::report
