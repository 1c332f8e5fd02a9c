#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <vector>

namespace ng {
namespace {

TEST(HugePages, KeepWhatLiesThere) {
  for (const size_t bytes : {size_t{0}, size_t{100}, (size_t{9} << 20) + 17}) {
    std::vector<char> memory(bytes + 3, 'a');
    prefer_huge_pages(memory.data() + 3, bytes);
    for (const char c : memory) ASSERT_EQ(c, 'a');
  }
}

}  // namespace
}  // namespace ng
