// bench kernels on the emulated card, whose memory the host cannot reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "speed/kernel_speed.h"

namespace ng {
namespace {

TEST(CudaSpeed, KernelsAreTimedInTheCardsMemory) {
  const std::vector<KernelSpeed> speeds =
      kernel_speeds({.threads = {1},
                     .backend = [] { return make_emulated_cuda_backend({}); },
                     .rows = 64,
                     .cols = 64,
                     .rounds = 1,
                     .filter = ""});
  const auto count = [&](std::string_view part) {
    return std::ranges::count_if(
        speeds, [&](const KernelSpeed& speed) { return speed.name.find(part) != part.npos; });
  };
  for (const KernelSpeed& speed : speeds) EXPECT_GT(speed.elements_per_second, 0) << speed.name;
  EXPECT_EQ(count("encode mxfp4"), 9);
  EXPECT_EQ(count("noise"), 6);
  EXPECT_EQ(count("gradient"), 4);
  EXPECT_EQ(count("layer"), 18);
  EXPECT_EQ(count("decode") + count("unpack") + count("box-muller") + count("amax 1x"), 0)
      << "of the backend cpu alone";
}

}  // namespace
}  // namespace ng
