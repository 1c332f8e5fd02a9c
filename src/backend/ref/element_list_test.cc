// Blocks that take E2M1 or INT4, whichever errs less: by hand, and the figures of rivals.md §2.2.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "math/normal.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

Operand listed(Select select = Select::mse) {
  Operand cast = operand_of("nvfp4");
  cast.other = &element_format("int4");
  cast.select = select;
  return cast;
}

constexpr float kScale = 448;  // of a block that reaches 6 · 448, where the tensor's scale is 1

TEST(ElementLists, ABlockOfEvenStepsTakesInt4) {
  std::vector<float> x(32, 0.0f);
  for (int q = -7; q <= 7; ++q)
    x[static_cast<size_t>(q + 7)] = 6.0f / 7 * static_cast<float>(q) * kScale;
  x[16] = 6 * kScale;
  x[17] = 1.5f * kScale;
  for (const Select select : {Select::mse, Select::mae, Select::max}) {
    const Prepared made(listed(select), view_of(x, 1, 32), 16);
    EXPECT_EQ(made.parts().scale(0, 0), -kScale) << "the sign says INT4";
    EXPECT_EQ(made.parts().scale(0, 16), kScale);
    for (int q = -7; q <= 7; ++q) {
      EXPECT_EQ(made.code(0, q + 7), static_cast<uint32_t>(q) & 0xFu) << q;
      EXPECT_EQ(made.value(0, q + 7), static_cast<float>(q) * (6.0f / 7) * kScale) << q;
    }
    EXPECT_EQ(made.code(0, 16), 7) << "6 of E2M1";
    EXPECT_EQ(made.value(0, 17), 1.5f * kScale);
  }
}

// Only 0 and the largest are numbers of both; nothing but zeros has no sign.
TEST(ElementLists, TheFirstOfEqualsStays) {
  std::vector<float> x(48, 0.0f);
  x[0] = 6 * kScale;
  x[1] = -6 * kScale;
  x[32] = 1e-20f;  // under the scale 0
  for (const Select select : {Select::mse, Select::mae, Select::max}) {
    const Prepared made(listed(select), view_of(x, 1, 48), 16);
    EXPECT_EQ(made.parts().scale(0, 0), kScale);
    EXPECT_EQ(made.code(0, 1), 0xF);
    EXPECT_FALSE(std::signbit(made.parts().scale(0, 16)));
    EXPECT_FALSE(std::signbit(made.parts().scale(0, 32)));
  }
}

TEST(ElementLists, TilesOfAMatrixAndOfItsTransposeChooseAlike) {
  std::vector<float> x(size_t{64} * 48);
  for (size_t i = 0; i < x.size(); ++i) x[i] = math::normal({.seed = 4}, i, 1.0f);
  Operand cast = listed();
  cast.block.rows = 16;
  const Prepared w(cast, view_of(x, 64, 48), 16);
  const Prepared turned(cast, view_of(x, 64, 48), 16, Contract::rows);
  for (int64_t r = 0; r < 64; ++r)
    for (int64_t c = 0; c < 48; ++c) ASSERT_EQ(w.code(r, c), turned.code(c, r)) << r << " " << c;
}

/// Σ (x̂ - x)² over Σ x² and the deviation of that, of blocks of 16.
struct RelativeError {
  double mean, deviation;
};
RelativeError relative_error(const Operand& cast, const std::vector<float>& x) {
  constexpr int64_t kCols = 4096;
  const Prepared made(cast, view_of(x, static_cast<int64_t>(x.size()) / kCols, kCols), 16);
  double sum = 0, squares = 0, power = 0;
  for (size_t block = 0; block < x.size(); block += 16) {
    double error = 0;
    for (size_t i = block; i < block + 16; ++i) {
      const double off = double{made.values()[i]} - x[i];
      error += off * off;
      power += double{x[i]} * x[i];
    }
    sum += error;
    squares += error * error;
  }
  const auto n = static_cast<double>(x.size() / 16);
  return {sum / power, std::sqrt((squares / n - sum / n * (sum / n)) * n) / power};
}

// Both samples scatter: by √2 times four deviations, and the last place given.
TEST(ElementLists, LoseWhatTheFiguresSay) {
  std::vector<float> x(size_t{1} << 20);
  for (size_t i = 0; i < x.size(); ++i) x[i] = math::normal({.seed = 5}, i, 1.0f);
  Operand int4 = operand_of("nvfp4");
  int4.element = &element_format("int4");
  const std::pair<Operand, double> figures[] = {{int4, .00747}, {listed(), .00617}};
  for (const auto& [cast, figure] : figures) {
    const RelativeError error = relative_error(cast, x);
    EXPECT_NEAR(error.mean, figure, .5e-5 + 4 * std::sqrt(2) * error.deviation) << describe(cast);
  }
}

}  // namespace
}  // namespace ng::ref
