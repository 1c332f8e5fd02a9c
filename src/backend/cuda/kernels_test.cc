// Kernels on the emulated device against the operations of `ref`, to the bit, in several orders of
// threads.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "backend/cuda/kernels/amax.h"
#include "backend/cuda/kernels/element_cast.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"
#include "backend/ref/update/store.h"
#include "backend/ref/update/update.h"
#include "format/codec.h"
#include "math/bf16.h"
#include "support/prepared_operand.h"

namespace ng::cuda {
namespace {

using emulated::Device;

constexpr uint64_t kOrders[] = {0, 1, 2, 3};
constexpr RandomKey kKey = {
    .seed = 77, .tensor = 5, .step = 9, .purpose = Purpose::fprop_input, .micro = 3};

/// Values of many binades with all that is odd among them; NaN and infinities where `finite` says
/// nothing else.
std::vector<float> odd_values(int64_t count, uint64_t seed, bool finite) {
  std::vector<float> x = ref::normals(count, seed);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= pow2(static_cast<int>(i * 7 % 40) - 20);
  const std::vector<float> odd = {0.0f,
                                  -0.0f,
                                  0x1p-149f,
                                  -0x1p-127f,
                                  kFloatMax,
                                  6.0f,
                                  -0x1p127f,
                                  448.0f,
                                  float_of_bits(kFloatInf),
                                  -float_of_bits(kFloatInf),
                                  float_of_bits(0x7FC00001u)};
  const size_t few = finite ? odd.size() - 3 : odd.size();
  for (size_t i = 11; i < x.size(); i += 97) x[i] = odd[i / 97 % few];
  return x;
}

bool same_bits(float a, float b) { return float_bits(a) == float_bits(b) || (a != a && b != b); }

TEST(CudaKernels, DivisorsDivide) {
  for (const int64_t by : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{64},
                           int64_t{641}, int64_t{50257}, int64_t{0x7FFFFFFF}, int64_t{0x80000001}})
    for (const int64_t around : {int64_t{0}, by, 5 * by, int64_t{1} << 30, int64_t{0x7FFFFFFF},
                                 int64_t{0x7FFFFFFF} / by * by, int64_t{1} << 40})
      for (const int64_t n : {around - 1, around, around + 1})
        EXPECT_EQ(Divisor(by)(std::max<int64_t>(n, 0)), std::max<int64_t>(n, 0) / by)
            << n << " / " << by;
}

TEST(CudaKernels, Bf16IsDecodedAsOtherElements) {
  Operand cast;
  cast.element = &bf16_format();
  const ElementCast element = element_cast(cast, {});
  for (uint32_t code = 0; code <= 0xFFFF; ++code)
    ASSERT_EQ(float_bits(decode_element(element, code)),
              float_bits(decode_float(element.grid, code)))
        << code;
}

// All that a float's upper half says, and what decides a rounding in the lower.
TEST(CudaKernels, FloatsAreEncodedAsByTheDefinition) {
  for (const char* name : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "e3m4", "e3m0", "e7m0fnuz",
                           "e4m3fnuz", "ue4m3", "e5m7"})
    for (const OverflowRule overflow : {OverflowRule::saturate, OverflowRule::special})
      for (const Rounder rounder :
           {Rounder{}, Rounder{RoundMode::sr, 16, 0}, Rounder{RoundMode::sr, 16, 0xFFFF},
            Rounder{RoundMode::sr, 16, 0x5A5A}, Rounder{RoundMode::sr, 3, 5}}) {
        const FloatGrid grid = grid_of(element_format(name));
        int64_t wrong = 0;
        for (uint32_t upper = 0; upper <= 0xFFFF; ++upper)
          for (const uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
            const float x = float_of_bits(upper << 16 | lower);
            wrong += encode_floating(grid, x, rounder, overflow) !=
                     encode_float(grid, x, rounder, overflow);
          }
        EXPECT_EQ(wrong, 0) << name << ", random " << rounder.random;
      }
}

// ---------------------------------------------------------------- amax

TEST(CudaKernels, AmaxIsThatOfRef) {
  for (const int64_t count : {0, 1, 255, 5000, 20000}) {
    for (const bool finite : {true, false}) {
      const std::vector<float> x = odd_values(count, 4, finite);
      float by_ref = -1;
      ref::perform(FindAmax{.amax = &by_ref, .x = ref::view_of(x, 1, count)});
      for (const uint64_t order : kOrders) {
        float amax = -1;
        Device device(card_of(90), order);
        find_amax(&device, x.data(), count, &amax);
        EXPECT_EQ(float_bits(amax), float_bits(by_ref)) << count << " values, order " << order;
      }
    }
  }
}

// ---------------------------------------------------------------- operands

/// Through a transform three rows at a time, so that regions of the second level lie in several
/// parts of the scratch.
void expect_parts(const Block& region) {
  constexpr int64_t kRows = 23, kCols = 150;
  std::vector<float> x = ref::normals(kRows * kCols, 6);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= pow2(static_cast<int>(i / 50) - 40);
  const ConstView source = ref::view_of(x, kRows, kCols);
  Operand cast = operand_of("nvfp4").rounded_by(Rounding::stochastic);
  cast.tensor_block = region;
  OperandSpec spec = ref::spec_of(cast, source, Contract::cols, 16);
  spec.hadamard = {.size = 16, .signs = {0x9E37}};
  const ref::Prepared by_ref(spec, source, ref::drawing(kKey));
  const int64_t k = spec.k_padded();
  for (const uint64_t order : kOrders) {
    Device device(card_of(90), order);
    std::vector<std::byte> storage(operand_bytes(spec));
    std::vector<std::byte> scratch(static_cast<size_t>(3 * k) * sizeof(float));
    PackedOperand packed{
        .spec = spec, .source = {}, .storage = storage.data(), .bytes = storage.size()};
    perform(&device, Prepare{.packed = &packed, .source = source, .context = ref::drawing(kKey)},
            Scratch{scratch.data(), scratch.size()});
    std::vector<float> values(static_cast<size_t>(kRows * k));
    perform(&device, Unpack{.packed = &packed, .values = {values.data(), kRows, k, k}});
    EXPECT_EQ(values, by_ref.values()) << describe(cast) << " in order " << order;
  }
}

TEST(CudaKernels, SecondScalesOfOperandsInPartsAreThoseOfRef) {
  expect_parts({});
  expect_parts({.kind = Block::Kind::row});
  expect_parts({.kind = Block::Kind::tile, .rows = 1, .cols = 128});
  expect_parts({.kind = Block::Kind::tile, .rows = 5, .cols = 48});
}

/// Both operands of (rows, cols) values, the straight one and the turned one with transforms of so
/// many.
void expect_both(const Operand& cast, std::pair<int64_t, int64_t> size, bool finite,
                 std::pair<int, int> transforms = {0, 0}) {
  const auto [rows, cols] = size;
  const std::vector<float> x = odd_values(rows * cols, 3, finite);
  const ConstView source = ref::view_of(x, rows, cols);
  std::array<OperandSpec, 2> specs = {ref::spec_of(cast, source, Contract::cols, 64),
                                      ref::spec_of(cast, source, Contract::rows, 64)};
  if (transforms.first > 0) specs[0].hadamard = {.size = transforms.first, .signs = {0x9E37}};
  if (transforms.second > 0) specs[1].hadamard = {.size = transforms.second, .signs = {0x79B9}};
  for (const uint64_t order : kOrders) {
    SCOPED_TRACE(fmt::format("{} of {} x {} in order {}", describe(cast), rows, cols, order));
    Device device(card_of(90), order);
    std::vector<std::byte> storage[2] = {std::vector<std::byte>(operand_bytes(specs[0])),
                                         std::vector<std::byte>(operand_bytes(specs[1]))};
    PackedOperand packed[2];
    for (const size_t i : {0, 1})
      packed[i] = {
          .spec = specs[i], .source = {}, .storage = storage[i].data(), .bytes = storage[i].size()};
    perform(
        &device,
        PrepareBoth{{{{&packed[0], ref::drawing(kKey)}, {&packed[1], ref::drawing(kKey)}}}, source},
        Scratch{});
    for (const size_t i : {0, 1}) {
      const ref::Prepared by_ref(specs[i], source, ref::drawing(kKey));
      const int64_t k = specs[i].k_padded();
      std::vector<float> values(static_cast<size_t>(specs[i].rows * k));
      std::vector<float> scales(values.size() / 32);
      std::vector<uint16_t> codes(values.size());
      perform(&device, Unpack{.packed = &packed[i],
                              .values = {values.data(), specs[i].rows, k, k},
                              .codes = codes.data(),
                              .scales = scales.data()});
      EXPECT_TRUE(std::ranges::equal(values, by_ref.values(), same_bits)) << i;
      EXPECT_TRUE(std::equal(scales.begin(), scales.end(), by_ref.parts().scales, same_bits)) << i;
      EXPECT_EQ(codes, by_ref.codes()) << i;
    }
  }
}

TEST(CudaKernels, BothOperandsOfMxFromOneReadAreThoseOfRef) {
  const Operand stochastic = operand_of("mxfp4").rounded_by(Rounding::stochastic);
  for (const char* name : {"mxfp4", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3"}) {
    expect_both(operand_of(name), {64, 96}, true);
    expect_both(operand_of(name), {37, 75}, false);
  }
  expect_both(operand_of("mxfp4"), {1, 1}, true);
  expect_both(stochastic, {75, 150}, false);
  expect_both(stochastic, {75, 150}, false, {0, 64});
  expect_both(stochastic, {75, 150}, false, {32, 16});
}

TEST(CudaKernels, MxDrawsAndRulesAreThoseOfRef) {
  Operand cast = operand_of("mxfp4");
  cast.rounding = Rounding::stochastic;
  cast.prescale = 0.75f;
  for (const int bits : {8, 16, 32}) {
    cast.sr_bits = bits;
    expect_both(cast, {40, 70}, true);
  }
  cast = operand_of("mxfp8_e4m3");
  for (const ScaleRule rule : {ScaleRule::rceil, ScaleRule::ceil, ScaleRule::even}) {
    cast.scale_rule = rule;
    expect_both(cast, {40, 70}, true);
  }
}

// ---------------------------------------------------------------- updates

constexpr int64_t kUpdateRows = 21, kUpdateCols = 45;

struct Parameter {
  std::vector<float> weight, moment1, moment2;
  std::vector<uint16_t> value;
};

/// Two steps by `ref` and by the kernel; `by_master`: BF16 made of an FP32 master, else the weight.
void expect_update(OptimizerRule rule, bool by_master, bool has_value, Rounding rounding) {
  constexpr size_t kSize = kUpdateRows * kUpdateCols;
  Operand bf16 = operand_of("bf16");
  bf16.rounding = rounding;
  const Operand fp32 = operand_of("fp32");
  Parameter start{.weight = ref::normals(kSize, 1),
                  .moment1 = ref::normals(kSize, 2),
                  .moment2 = ref::normals(kSize, 3),
                  .value = std::vector<uint16_t>(kSize)};
  for (size_t i = 0; i < kSize; ++i) {
    start.moment2[i] *= start.moment2[i];
    start.value[i] = to_bf16(start.weight[i]).bits;
  }
  start.moment2[7] = 0;
  const std::vector<float> grad = ref::normals(kSize, 4);
  const OptimizerNumbers numbers{.lr = 3e-3f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.1f,
                                 .correction1 = 0.271f,
                                 .correction2 = 0.142625f};
  const StepControl control{.grad_scale = 0.37f};
  const auto view = [](auto& values, const Operand& cast) {
    return View(reinterpret_cast<std::byte*>(values.data()), *cast.element, kUpdateRows,
                kUpdateCols, kUpdateCols);
  };
  const auto update_of = [&](Parameter& p) {
    Update op{.optimizer = rule,
              .weight = {},
              .grad = ref::view_of(grad, kUpdateRows, kUpdateCols),
              .numbers = numbers,
              .key = kKey,
              .control = &control};
    const bool moves = rule != OptimizerRule::muon && rule != OptimizerRule::direction;
    if (moves) op.moment1 = {view(p.moment1, fp32), fp32};
    if (rule == OptimizerRule::adamw) op.moment2 = {view(p.moment2, fp32), fp32};
    if (by_master && has_value) op.weight.master = {view(p.weight, fp32), fp32};
    op.weight.value =
        has_value ? Stored{view(p.value, bf16), bf16} : Stored{view(p.weight, fp32), fp32};
    op.weight.rule =
        rounding == Rounding::stochastic ? UpdateRule::stochastic : UpdateRule::nearest;
    return op;
  };
  Parameter by_ref = start;
  for (int step = 0; step < 2; ++step) ref::perform(update_of(by_ref));
  for (const uint64_t order : kOrders) {
    Parameter p = start;
    Device device(card_of(90), order);
    std::vector<std::byte> scratch(4096);
    for (int step = 0; step < 2; ++step)
      perform(&device, update_of(p), Scratch{scratch.data(), scratch.size()});
    EXPECT_EQ(p.weight, by_ref.weight) << "order " << order;
    EXPECT_EQ(p.value, by_ref.value) << "order " << order;
    EXPECT_EQ(p.moment1, by_ref.moment1) << "order " << order;
    EXPECT_EQ(p.moment2, by_ref.moment2) << "order " << order;
    EXPECT_FALSE(p.weight == start.weight && p.value == start.value) << "nothing moved";
  }
}

TEST(CudaKernels, UpdatesAreThoseOfRef) {
  for (const OptimizerRule rule :
       {OptimizerRule::adamw, OptimizerRule::sgd, OptimizerRule::muon, OptimizerRule::direction}) {
    SCOPED_TRACE(static_cast<int>(rule));
    expect_update(rule, true, false, Rounding::nearest);  // FP32 weights
    expect_update(rule, true, true, Rounding::nearest);   // BF16 of an FP32 master
    expect_update(rule, false, true, Rounding::nearest);  // BF16 alone
    expect_update(rule, false, true, Rounding::stochastic);
  }
}

}  // namespace
}  // namespace ng::cuda
