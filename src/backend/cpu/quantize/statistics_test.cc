// Scales that are not made of amax, and products turned back: the kernels beside the definition.
#include <cstring>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/quantize/quantize_testing.h"
#include "format/block_statistic.h"
#include "format/hadamard.h"
#include "format/scale.h"

namespace ng {
namespace {

void expect_same_by(ScaleOf scale_of, Operand cast) {
  cast.scale_of = scale_of;
  for (const Contract contract : kContracts)
    for (const Data data : {Data::normal, Data::zeros, Data::tiny, Data::huge, Data::nonfinite}) {
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {48, 96}, data));
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 32, {19, 45}, data, 2, Storage::bf16));
    }
}

TEST(Statistics, MakeScalesAsByDefinition) {
  for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::rceil, ScaleRule::even}) {
    Operand cast = operand_of("mxfp4");
    cast.scale_rule = rule;
    ASSERT_NO_FATAL_FAILURE(expect_same_by(ScaleOf::rms, cast));
    cast.block.rows = 32;
    cast.rounding = Rounding::stochastic;
    ASSERT_NO_FATAL_FAILURE(expect_same_by(ScaleOf::mean_abs, cast));
  }
  for (const Block::Kind kind : {Block::Kind::row, Block::Kind::tensor}) {
    Operand cast = operand_of("int4");
    cast.block = {.kind = kind};
    ASSERT_NO_FATAL_FAILURE(expect_same_by(ScaleOf::mean_abs, cast));
    cast.element = &element_format("ternary");
    ASSERT_NO_FATAL_FAILURE(expect_same_by(ScaleOf::mean_abs, cast));
  }
}

float statistic(const Operand& cast, const std::vector<float>& values) {
  return scale_statistic(statistic_rule(cast), 6, 3, std::ssize(values), [&](const auto& use) {
    for (size_t i = 0; i < values.size(); ++i) use(static_cast<int64_t>(i), values[i]);
  });
}

TEST(Statistics, AreMeansAndDeviations) {
  Operand cast = operand_of("mxfp4");
  cast.scale_of = ScaleOf::mean_abs;
  EXPECT_EQ(statistic(cast, {1, -2, 0, 3}), 1.5f);
  EXPECT_FALSE(statistic_rule(cast).is_of(0));
  cast.element = &element_format("ternary");
  EXPECT_EQ(statistic(cast, {1, -2, 0, 3}), 1.5f);
  EXPECT_EQ(statistic(cast, {1e-5f, -1e-6f, 0, 0}), 1e-5f) << "its least";
  EXPECT_TRUE(statistic_rule(cast).is_of(0));
  cast.scale_of = ScaleOf::rms;
  EXPECT_EQ(statistic(cast, {1, 3, 1, 3}), static_cast<float>(2.92247856 / 6));
  EXPECT_EQ(statistic(cast, {3, 3, 3, 3}), 0.5f) << "amax / 6, where nothing deviates";
}

TEST(Statistics, BecomeTheNearestPowersOfTwo) {
  const float root = std::sqrt(2.0f);  // of which the square is less than 2
  EXPECT_EQ(e8m0_exponent(ScaleRule::even, root), 0);
  EXPECT_EQ(e8m0_exponent(ScaleRule::even, std::nextafter(root, 2.0f)), 1);
  EXPECT_EQ(e8m0_exponent(ScaleRule::floor, 1.99f), 0);
  EXPECT_EQ(e8m0_exponent(ScaleRule::rceil, 1.0f), 0);
  EXPECT_EQ(e8m0_exponent(ScaleRule::ceil, 1.01f), 1);
}

template <class Value>
std::vector<Value> filled(int64_t count, float value) {
  if constexpr (std::is_same_v<Value, Bf16>)
    return std::vector<Value>(static_cast<size_t>(count), to_bf16(value));
  else
    return std::vector<Value>(static_cast<size_t>(count), value);
}

template <class Value>
void expect_turned_back(TurnBack op, int64_t rows, int64_t cols) {
  std::vector<Value> want = filled<Value>(rows * cols, 0.75f), got = want;
  op.y = {want.data(), rows, cols, cols};
  ref::perform(op);
  op.y = {got.data(), rows, cols, cols};
  cpu::Workspace workspace({2});
  cpu::turn_back(workspace, op);
  EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(Value)), 0)
      << op.hadamard.size << ' ' << rows << ' ' << cols;
}

TEST(TurnBack, UndoesTheTransformWithTheBitsOfTheDefinition) {
  constexpr int64_t kDown = 5, kAcross = 1200;
  const Source source = make_source(Data::normal, kDown, kAcross, kAcross, Storage::fp32);
  for (const int g : {16, 32, 64, 128}) {
    const int64_t padded = (kAcross + g - 1) / g * g;
    std::vector<float> turned(static_cast<size_t>(kDown * padded), 0.0f);
    const Hadamard hadamard{.size = g, .signs = {0xD7E8A5C3u, 0x12345678u, 0x9ABCDEF0u, 7}};
    for (int64_t r = 0; r < kDown; ++r) {
      float* row = turned.data() + r * padded;
      std::copy_n(source.view.as<float>().row(r), kAcross, row);
      for (int64_t k = 0; k < padded; k += g) hadamard_transform(row + k, g, hadamard.signs.data());
    }
    TurnBack op{.y = {}, .x = {turned.data(), kDown, padded, padded}, .hadamard = hadamard};
    std::vector<float> back(static_cast<size_t>(kDown * kAcross));
    op.y = {back.data(), kDown, kAcross, kAcross};
    ref::perform(op);
    for (int64_t r = 0; r < kDown; ++r)
      for (int64_t k = 0; k < kAcross; ++k)
        ASSERT_NEAR(back[static_cast<size_t>(r * kAcross + k)], source.view.as<float>().row(r)[k],
                    1e-4);
    cpu::on_every_isa([&] {
      for (const Into into : {Into::overwrite, Into::add}) {
        op.into = into;
        expect_turned_back<float>(op, kDown, kAcross);
        expect_turned_back<Bf16>(op, kDown, kAcross);
      }
      op.round = Compute::bf16;
      expect_turned_back<float>(op, kDown, kAcross);
      op.round = Compute::fp32;
    });
  }
}

}  // namespace
}  // namespace ng
