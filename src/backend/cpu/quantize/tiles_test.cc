// Two operands made of one source at once are those that are made one after the other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/quantize/quantize.h"

namespace ng {
namespace {

constexpr int64_t kRows = 300, kCols = 1100;  // nine tiles, the last ones ragged

std::vector<float> source_values() {
  std::vector<float> values(kRows * kCols);
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  for (float& x : values) x = normal(random) * std::exp2(static_cast<float>(random() % 12) - 6);
  values[5] = std::numeric_limits<float>::infinity();
  values[values.size() - 7] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

struct Made {
  PackedOperand packed;
  std::vector<std::byte> storage;
  OperandStats stats;
  std::vector<float> history = {0.25f, 0.0f};
  float encode_scale = 3.0f;
  PrepareContext context;

  Made(const Operand& cast, Contract contract, int hadamard, Purpose purpose) {
    packed.spec.cast = cast;
    packed.spec.contract = contract;
    packed.spec.rows = contract == Contract::cols ? kRows : kCols;
    packed.spec.k = contract == Contract::cols ? kCols : kRows;
    packed.spec.k_multiple = std::max(hadamard, 32);
    packed.spec.hadamard = {hadamard, {0x9E3779B9u, 0x0F1E2D3Cu, 0xA5A5F00Fu, 0x12345678u}};
    packed.bytes = cpu::operand_bytes(packed.spec);
    storage.assign(packed.bytes + 64, std::byte{0x5A});
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    packed.storage = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
    context.key = {.seed = 99, .tensor = 5, .step = 7, .purpose = purpose, .micro = 2};
    context.first_row = 40;
    context.delayed = {&encode_scale, history.data()};
    context.stats = &stats;
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() = default;

  [[nodiscard]] std::vector<std::byte> bytes() const {
    return {packed.storage, packed.storage + packed.bytes};
  }
};

void expect_equal(const Made& got, const Made& want) {
  const std::vector<std::byte> a = got.bytes(), b = want.bytes();
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin());
  EXPECT_EQ(differ.first - a.begin(), a.end() - a.begin());
  EXPECT_EQ(got.stats.saturated, want.stats.saturated);
  EXPECT_EQ(got.stats.flushed, want.stats.flushed);
  EXPECT_EQ(got.stats.nan, want.stats.nan);
  EXPECT_EQ(got.stats.inf, want.stats.inf);
  EXPECT_EQ(got.stats.values, want.stats.values);
  EXPECT_EQ(got.history, want.history);
}

TEST(PrepareBoth, GivesTheOperandsOfTwoPreparations) {
  const std::vector<float> values = source_values();
  const ConstView source{values.data(), kRows, kCols, kCols};
  for (const int threads : {1, 2, 3})
    for (const char* name : {"mxfp4", "nvfp4", "mxfp8_e4m3", "mxfp6_e2m3", "int8", "fp8_e4m3",
                             "bf16", "fp32", "mxint8"})
      for (const int hadamard : {0, 64}) {
        SCOPED_TRACE(fmt::format("{} hadamard {} threads {}", name, hadamard, threads));
        Operand straight = operand_of(name), turned = straight;
        straight.rounding = name[0] == 'm' ? Rounding::stochastic : Rounding::nearest;
        if (name[0] == 'n') turned.rounding = Rounding::stochastic;
        if (name[0] == 'f' && name[1] == 'p' && name[2] == '8') {
          turned.scaling = Scaling::delayed;
          turned.amax_history = 2;
        }
        cpu::Workspace workspace({threads});
        Made a(straight, Contract::cols, hadamard, Purpose::dgrad_grad);
        Made b(turned, Contract::rows, hadamard, Purpose::wgrad_grad);
        cpu::prepare_both(workspace, {a.packed, a.context}, {b.packed, b.context}, source);
        Made a_alone(straight, Contract::cols, hadamard, Purpose::dgrad_grad);
        Made b_alone(turned, Contract::rows, hadamard, Purpose::wgrad_grad);
        cpu::prepare(workspace, a_alone.packed, source, a_alone.context);
        cpu::prepare(workspace, b_alone.packed, source, b_alone.context);
        expect_equal(a, a_alone);
        expect_equal(b, b_alone);
      }
}

}  // namespace
}  // namespace ng
