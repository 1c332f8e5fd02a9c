#include "base/units.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(ParseSize, ReadsBothKindsOfUnits) {
  EXPECT_EQ(parse_size("80GB"), 80000000000u);
  EXPECT_EQ(parse_size("80 GiB"), uint64_t{80} << 30);
  EXPECT_EQ(parse_size("1.5KiB"), 1536u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("7B"), 7u);
  EXPECT_EQ(parse_size("1000TiB"), uint64_t{1000} << 40);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GB", "80gb", "80 GB ", "80  GB", "-1GB", "0", "0.5", "1e3", "nan",
                           "inf", "0x10", "1001TiB", "80GBs", " 80GB", "1,5GB"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(1, "layer"), "1 layer");
  EXPECT_EQ(counted(0, "layer"), "0 layers");
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(12, "micro-batch"), "12 micro-batches");
}

}  // namespace
}  // namespace ng
