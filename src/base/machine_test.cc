#include "base/machine.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(Machine, HasMemory) {
  EXPECT_GT(machine_memory().total, 0U);
  EXPECT_GT(peak_resident_bytes(), 0U);
  EXPECT_LE(peak_resident_bytes(), machine_memory().total);
}

TEST(Machine, SaysItsThreads) {
  EXPECT_TRUE(machine_text({1}).ends_with(", 1 thread")) << machine_text({1});
  EXPECT_TRUE(machine_text({2}).starts_with(cpu_model() + ", ")) << machine_text({2});
}

}  // namespace
}  // namespace ng
