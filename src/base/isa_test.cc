#include "base/isa.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

TEST(Isa, EverySupportedOneCanBeForced) {
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    EXPECT_EQ(current_isa(), isa);
  }
  force_isa("auto");
  EXPECT_EQ(current_isa(), supported_isas().back());
}

TEST(Isa, UnknownNameIsRefused) { EXPECT_THROW(force_isa("sse9"), Error); }

}  // namespace
}  // namespace ng
