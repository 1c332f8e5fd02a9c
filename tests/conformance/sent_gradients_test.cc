// Gradients as they are sent, and their sums over ranks: `ref` fixes their bits.
#include <deque>

#include "format/codec.h"
#include "stored_tensors.h"

namespace ng::conformance {
namespace {

// Gradients that are sent: with mu in the scale, and one that is not finite.
TEST(Conformance, StoreGradient) {
  for (const Size& size : kSizes)
    for (const Operand& cast :
         {cast_of("bf16"), cast_of("fp8_e4m3"), scaled_by_power("fp8_e4m3"),
          in_blocks("fp8_e4m3", 1, 128), cast_of("fp8_e5m2"),
          cast_of("mxfp8_e4m3", Rounding::stochastic), cast_of("mxfp4"), cast_of("nvfp4")})
      for (const float bad : {0.0f, std::numeric_limits<float>::infinity()})
        conform(fmt::format("{} {}x{} {}", describe(cast), size.rows, size.cols, bad),
                [&](const Place& with) -> Results {
                  StoredTensor y(with.backend, cast, size.rows, size.cols);
                  Matrix values = spread(with, size, 5, 3.0f).values();
                  values.at(size.rows - 1, size.cols - 1) += bad;
                  const Tensor x = with.fp32(values);
                  const AutoScale start{.mu = 0.7071067f, .k = -500};
                  Buffer<AutoScale> scale = with.buffer<AutoScale>({start});
                  with.execute(StoreGradient{
                      .y = y.stored(),
                      .x = x,
                      .key = {.seed = 3, .tensor = 2, .purpose = Purpose::gradient_wire},
                      .scale = scale.data()});
                  Results results;
                  if (bad == 0) add(results, "y", y);
                  Buffer<double> sum = with.buffer<double>({0.0});
                  with.execute(AddSumOfSquares{sum.data(), y.view()});
                  EXPECT_EQ(std::isfinite(sum.values()[0]), bad == 0);
                  if (bad == 0) results["sum"] = Matrix::row({static_cast<float>(sum.values()[0])});
                  return results;
                });
}

// A part of a tensor whose largest value lies elsewhere takes the scale of all.
TEST(Conformance, StoreGradientOfAPart) {
  Operand int8 = cast_of("int8");
  int8.block.kind = Block::Kind::tensor;
  for (const Size& size : kSizes)
    for (const Operand& cast : {cast_of("fp8_e4m3"), scaled_by_power("fp8_e4m3"),
                                cast_of("fp8_e5m2"), cast_of("mxfp4"), cast_of("nvfp4"), int8})
      for (const float amax : {300.0f, std::numeric_limits<float>::quiet_NaN()})
        conform(fmt::format("{} {}x{} {}", describe(cast), size.rows, size.cols, amax),
                [&](const Place& with) -> Results {
                  StoredTensor y(with.backend, cast, size.rows, size.cols);
                  const Tensor x = with.fp32(spread(with, size, 5, 3.0f).values());
                  Buffer<float> of_all = with.buffer<float>({amax});
                  with.execute(
                      StoreGradient{.y = y.stored(), .x = x, .key = {}, .amax = of_all.data()});
                  Buffer<double> sum = with.buffer<double>({0.0});
                  with.execute(AddSumOfSquares{sum.data(), y.view()});
                  EXPECT_EQ(std::isfinite(sum.values()[0]), std::isfinite(amax));
                  Results results;
                  if (std::isfinite(amax)) add(results, "y", y);
                  return results;
                });
}

TEST(Conformance, FindAmax) {
  for (const Size& size : kSizes)
    for (const float bad :
         {0.0f, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
      conform(fmt::format("{}x{} {}", size.rows, size.cols, bad),
              [&](const Place& with) -> Results {
                Matrix values = spread(with, size, 5, 3.0f).values();
                values.at(size.rows - 1, size.cols - 1) += bad;
                float largest = 0;
                for (int64_t r = 0; r < size.rows; ++r)
                  for (int64_t c = 0; c < size.cols; ++c)
                    largest = std::max(largest, std::fabs(values.at(r, c)));
                const Tensor x = with.fp32(values);
                Buffer<float> amax = with.buffer<float>({7.0f});
                with.execute(FindAmax{.amax = amax.data(), .x = x});
                const float found = amax.values()[0];
                EXPECT_EQ(std::isfinite(found), bad == 0);
                EXPECT_TRUE(bad != 0 || found == largest) << found;
                return {};
              });
}

/// Means of three ranks' gradients, as they came.
Results sum_of_ranks(const Place& with, const Size& size, const Operand& cast, RankSum rule) {
  std::deque<StoredTensor> ranks;
  std::vector<ConstView> views;
  for (uint64_t rank = 0; rank < 3; ++rank) {
    StoredTensor& y = ranks.emplace_back(with.backend, cast, size.rows, size.cols);
    const float scale = cast.is_unscaled() ? 200.0f : 3.0f;
    const Tensor x = with.fp32(spread(with, size, 5 + rank, scale).values());
    with.execute(Store{.y = y.stored(), .x = x, .key = {.seed = rank}});
    views.push_back(y.view());
  }
  Tensor mean = with.fp32(Matrix(size.rows, size.cols));
  Buffer<uint64_t> largest = with.buffer<uint64_t>({0});
  with.execute(SumOfRanks{.y = mean,
                          .x = views,
                          .rule = rule,
                          .encode_scale = 3 * 0.7f,
                          .first = 100,
                          .size = 100 + 2 * size.rows * size.cols,
                          .largest = largest.data()});
  return {{"mean", mean.values()},
          {"largest", Matrix::row({static_cast<float>(largest.values()[0])})}};
}

TEST(Conformance, SumOfRanks) {
  for (const Size& size : kSizes) {
    for (const Operand& cast : stored_casts())
      conform(fmt::format("{} {}x{}", describe(cast), size.rows, size.cols),
              [&](const Place& with) { return sum_of_ranks(with, size, cast, RankSum::exact); });
    for (const std::string_view format : {"fp8_e4m3", "fp8_e5m2", "bf16", "fp32"})
      conform(fmt::format("ring {} {}x{}", format, size.rows, size.cols), [&](const Place& with) {
        return sum_of_ranks(with, size, cast_of(format), RankSum::ring);
      });
  }
}

TEST(Conformance, CountLargest) {
  for (const Size& size : kSizes)
    for (const Operand& cast : {cast_of("fp8_e4m3"), cast_of("fp8_e5m2")})
      conform(fmt::format("{} {}x{}", describe(cast), size.rows, size.cols),
              [&](const Place& with) -> Results {
                StoredTensor y(with.backend, cast, size.rows, size.cols);
                const float beyond = 4 * max_value(*cast.element);
                const Tensor x = with.fp32(spread(with, size, 5, beyond).values());
                with.execute(Store{.y = y.stored(), .x = x, .key = {}});
                Buffer<uint64_t> count = with.buffer<uint64_t>({3});
                with.execute(CountLargest{count.data(), y.view()});
                EXPECT_TRUE(size.rows == 1 || count.values()[0] > 3);
                return {{"count", Matrix::row({static_cast<float>(count.values()[0])})}};
              });
}

}  // namespace
}  // namespace ng::conformance
