// Two operands made of one source at once are those that are made one after the other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/quantize/job.h"
#include "backend/cpu/quantize/quantize.h"
#include "base/sanitized_testing.h"
#include "math/bf16.h"

namespace ng {
namespace {

constexpr int64_t kTilesRows = 300, kCols = 1100,
                  kStride = 1103;  // nine tiles, the last ones ragged

std::vector<float> source_values() {
  std::vector<float> values(kTilesRows * kStride);
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
    packed.spec.rows = contract == Contract::cols ? kTilesRows : kCols;
    packed.spec.k = contract == Contract::cols ? kCols : kTilesRows;
    packed.spec.k_multiple = std::max<int64_t>({hadamard, cast.block.cols, 1});
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

/// A preset with other settings.
struct Case {
  std::string_view name;
  Block block = {};  ///< of its own kind where that is not tensor
  int sr_bits = 0;   ///< 0: nearest
  float prescale = 1;
  bool delayed = false;
  bool tiles = true;  ///< can be made tile by tile without a transform, and with one
  bool tiles_transformed = true;
};

Operand cast_of(const Case& c) {
  Operand cast = operand_of(c.name);
  if (c.block.kind != Block::Kind::tensor) cast.block = c.block;
  if (c.sr_bits != 0) {
    cast.rounding = Rounding::stochastic;
    cast.sr_bits = c.sr_bits;
  }
  cast.prescale = c.prescale;
  if (c.delayed) {
    cast.scaling = Scaling::delayed;
    cast.amax_history = 2;
  }
  return cast;
}

constexpr Block kSquare = {.kind = Block::Kind::tile, .rows = 16, .cols = 16};
constexpr Block kWide = {.kind = Block::Kind::tile, .rows = 1, .cols = 256};

const Case kCases[] = {
    {.name = "mxfp4"},
    {.name = "mxfp4", .sr_bits = 16, .prescale = 0.75f},
    {.name = "mxfp4", .sr_bits = 8},
    {.name = "nvfp4"},
    {.name = "nvfp4", .block = kSquare, .sr_bits = 16},
    {.name = "nvfp4", .block = kWide, .tiles = false, .tiles_transformed = false},
    {.name = "mxfp8_e4m3", .sr_bits = 16},
    {.name = "mxfp6_e2m3"},
    {.name = "mxint8", .sr_bits = 16},
    {.name = "int8", .tiles = false, .tiles_transformed = false},  // rows have one scale
    {.name = "fp8_e4m3"},
    {.name = "fp8_e4m3", .delayed = true},
    {.name = "bf16", .tiles = false},
    {.name = "fp32", .tiles = false},
};

bool can_be_tiled(const Made& made, const ConstView& source) {
  return cpu::can_be_tiled(cpu::quantize_job(made.packed, source, made.context, {}));
}

void expect_two_of(const ConstView& source) {
  for (const Case& c : kCases)
    for (const int threads : {1, 2, 3})
      for (const int hadamard : {0, 64}) {
        if (is_left_out()) continue;
        SCOPED_TRACE(fmt::format("{} hadamard {} threads {}", c.name, hadamard, threads));
        const Operand cast = cast_of(c);
        cpu::Workspace workspace({threads});
        Made a(cast, Contract::cols, hadamard, Purpose::dgrad_grad);
        Made b(cast, Contract::rows, hadamard, Purpose::wgrad_grad);
        const bool both = can_be_tiled(a, source) && can_be_tiled(b, source);
        EXPECT_EQ(both, hadamard == 0 ? c.tiles : c.tiles_transformed);
        cpu::prepare_both(workspace, {.made = {{{&a.packed, a.context}, {&b.packed, b.context}}},
                                      .source = source});
        Made a_alone(cast, Contract::cols, hadamard, Purpose::dgrad_grad);
        Made b_alone(cast, Contract::rows, hadamard, Purpose::wgrad_grad);
        for (Made* alone : {&a_alone, &b_alone})
          cpu::prepare(workspace,
                       {.packed = &alone->packed, .source = source, .context = alone->context});
        expect_equal(a, a_alone);
        expect_equal(b, b_alone);
      }
}

TEST(PrepareBoth, GivesTheOperandsOfTwoPreparations) {
  const std::vector<float> values = source_values();
  std::vector<Bf16> halves;
  for (const float x : values) halves.push_back(to_bf16(x));
  for (const ConstView& source : {ConstView{values.data(), kTilesRows, kCols, kStride},
                                  ConstView{halves.data(), kTilesRows, kCols, kStride}})
    expect_two_of(source);
}

}  // namespace
}  // namespace ng
