#include "base/isa.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace ng {
namespace {

// Runs first: what the CPU has is asked for by the first call, whichever it is.
TEST(Isa, ForcingTheWeakestFirstHidesNoOther) {
  force_isa(Isa::scalar);
  const std::vector<Isa> isas = supported_isas();
  const bool found = std::find(isas.begin(), isas.end(), Isa::avx2) != isas.end();
  EXPECT_EQ(found, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}

TEST(Isa, EverySupportedOneCanBeForced) {
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    EXPECT_EQ(current_isa(), isa);
  }
  force_isa("auto");
  const Isa strongest = supported_isas().back();
  const bool is_slow = strongest == Isa::avx512bf16 && __builtin_cpu_is("intel") != 0;
  EXPECT_EQ(current_isa(), is_slow ? Isa::avx512vnni : strongest);
}

TEST(Isa, UnknownNameIsRefused) { EXPECT_THROW(force_isa("sse9"), Error); }

}  // namespace
}  // namespace ng
