#include "run/timed_backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "format/table.h"
#include "run/backends.h"

namespace ng {
namespace {

// y = x · xᵀ of a matrix that the cpu backend reads in place.
void multiply(TimedBackend& backend) {
  constexpr int64_t kSize = 8;
  std::vector<float> x(kSize * kSize, 1.0f), y(x.size());
  PackedOperand packed;
  packed.spec.cast = operand_of("fp32");
  packed.spec.rows = packed.spec.k = kSize;
  packed.source = {x.data(), kSize, kSize, kSize};
  backend.gemm({.y = {y.data(), kSize, kSize, kSize}}, packed, packed);
}

bool has_time(const TimedBackend& backend, TimeKind kind) {
  return backend.seconds()[static_cast<size_t>(kind)] > 0;
}

TEST(TimedBackend, GemmsOfTheHeadAreApart) {
  TimedBackend backend(make_backend("cpu", Threads{1}));
  {
    const TimedBackend::InHead in_head(backend);
    multiply(backend);
  }
  EXPECT_TRUE(has_time(backend, TimeKind::head_and_loss));
  EXPECT_FALSE(has_time(backend, TimeKind::gemm_fprop));
  multiply(backend);
  EXPECT_TRUE(has_time(backend, TimeKind::gemm_fprop));
}

}  // namespace
}  // namespace ng
