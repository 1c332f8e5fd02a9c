// Elements that a user names: operands and products of the cpu backend are those of ref, bit for
// bit, whatever the bits of the element.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"
#include "base/sanitized_testing.h"
#include "math/round.h"

namespace ng {
namespace {

constexpr int64_t kRows = 5;
constexpr int64_t kK = 70;

/// All that shapes the vector arithmetic: few and many bits, no mantissa, no normal numbers,
/// FP32's own exponent range, 4 bits that are not E2M1, 16 bits that are neither FP16 nor BF16.
constexpr const char* kElements[] = {
    "e1m0fn", "e1m2", "e3m0", "e2m0fnuz",  "e2m1_ieee", "e1m2fn",  "e4m0",     "e2m2",
    "e3m3",   "e2m5", "e1m6", "e7m0",      "e6m1fn",    "e3m4fn",  "e5m2fn",   "e5m3",
    "e4m4fn", "e1m8", "e6m5", "e7m4fnuz",  "e2m12",     "e7m8",    "e7m8fnuz", "e1m14",
    "e6m9fn", "e8m1", "e8m4", "e8m0_ieee", "e8m7fnuz",  "e8m3fnuz"};

std::vector<float> spread_values(int binades, bool with_specials) {
  std::vector<float> x(static_cast<size_t>(kRows * kK));
  uint32_t state = static_cast<uint32_t>(binades) + 77;
  const auto next = [&] { return state = state * 1664525u + 1013904223u; };
  for (size_t i = 0; i < x.size(); ++i) {
    const float m = static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f;
    x[i] = std::ldexp(
        m, static_cast<int>((next() >> 16) % static_cast<uint32_t>(binades)) - binades / 2);
    if (i % 7 == 3) x[i] = std::ldexp(std::round(m * 16), -3);  // ties and exact numbers
    if (i % 31 == 5) x[i] = 0.0f;
  }
  if (with_specials) {
    x[11] = std::numeric_limits<float>::quiet_NaN();
    x[100] = -std::numeric_limits<float>::infinity();
    x[200] = 3.3e38f;
  }
  return x;
}

struct Stored {
  PackedOperand packed;
  std::vector<std::byte> memory;
  OperandStats stats;
};

Stored prepared(Backend& backend, const OperandSpec& spec, const ConstView& source) {
  Stored out;
  out.packed.spec = spec;
  out.packed.bytes = backend.operand_bytes(spec);
  out.memory.resize(out.packed.bytes + 64);
  const auto address = reinterpret_cast<uintptr_t>(out.memory.data());
  out.packed.storage = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
  PrepareContext context;
  context.key = {.seed = 5, .tensor = 2, .step = 9, .purpose = Purpose::wgrad_grad};
  context.stats = &out.stats;
  backend.execute(Prepare{.packed = &out.packed, .source = source, .context = context});
  return out;
}

/// Values, codes, counters and the product with itself, as words.
std::vector<uint32_t> outcome(Backend& backend, OperandSpec spec, const ConstView& source) {
  const Stored factor = prepared(backend, spec, source);
  spec.signed_zeros = true;
  const Stored operand = prepared(backend, spec, source);
  const auto count = static_cast<size_t>(spec.rows * spec.k_padded());
  std::vector<float> values(count);
  std::vector<uint16_t> codes(count);
  backend.execute(Unpack{.packed = &operand.packed,
                         .values = {values.data(), spec.rows, spec.k_padded(), spec.k_padded()},
                         .codes = codes.data()});
  std::vector<float> product(static_cast<size_t>(spec.rows * spec.rows));
  backend.execute(Gemm{.y = {product.data(), spec.rows, spec.rows, spec.rows},
                       .a = &factor.packed,
                       .b = &factor.packed});
  std::vector<uint32_t> words(codes.begin(), codes.end());
  for (const std::vector<float>* floats : {&values, &product})
    for (const float x : *floats) words.push_back(std::isnan(x) ? 0x7FC00000u : float_bits(x));
  const OperandStats& s = operand.stats;
  for (const uint64_t n : {s.values, s.saturated, s.flushed, s.nan, s.inf})
    words.push_back(static_cast<uint32_t>(n));
  return words;
}

class ExmyOperands : public testing::Test {
 protected:
  void expect_same(const Operand& cast, bool with_specials) {
    for (const int binades : {12, 200}) {
      const std::vector<float> x = spread_values(binades, with_specials);
      for (const Contract contract : {Contract::cols, Contract::rows}) {
        if (is_left_out()) continue;
        const bool straight = contract == Contract::cols;
        const int64_t multiple = cast.block.kind == Block::Kind::tile ? cast.block.cols : 1;
        const OperandSpec spec = {.cast = cast,
                                  .contract = contract,
                                  .rows = straight ? kRows : kK,
                                  .k = straight ? kK : kRows,
                                  .k_multiple = multiple,
                                  .hadamard = {}};
        const ConstView source = {x.data(), kRows, kK, kK};
        const auto want = outcome(*ref_, spec, source);
        for (const Isa isa : tested_isas()) {
          force_isa(isa);
          const auto got = outcome(*cpu_, spec, source);
          force_isa("auto");
          ASSERT_EQ(got.size(), want.size());
          const auto at = std::mismatch(want.begin(), want.end(), got.begin()).first - want.begin();
          ASSERT_EQ(at, std::ssize(want))
              << describe(cast) << " binades " << binades << " straight " << straight << " "
              << name_of(isa) << " of " << spec.rows * spec.k_padded() << " elements: " << std::hex
              << got[static_cast<size_t>(at)] << " instead of " << want[static_cast<size_t>(at)];
        }
      }
    }
  }

  std::unique_ptr<Backend> ref_ = make_ref_backend({1});
  std::unique_ptr<Backend> cpu_ = make_cpu_backend({1});
};

Operand with_element(const char* format, const char* element) {
  Operand cast = operand_of(format);
  cast.element = &element_format(element);
  return cast;
}

/// E8M0 scales add nothing to the range of eight exponent bits: recipes refuse the pair.
bool takes_power_scales(const char* element) { return element_format(element).exponent_bits < 8; }

TEST_F(ExmyOperands, BlocksOfAnyElement) {
  for (const char* element : kElements) {
    if (!takes_power_scales(element)) continue;
    Operand cast = with_element("mxfp4", element);
    ASSERT_NO_FATAL_FAILURE(expect_same(cast, false));
    for (const ScaleRule rule : {ScaleRule::rceil, ScaleRule::even, ScaleRule::mse}) {
      cast.scale_rule = rule;
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, true));
    }
  }
}

TEST_F(ExmyOperands, TensorsRowsAndBareElements) {
  for (const char* element : kElements) {
    Operand cast = with_element("fp8_e4m3", element);
    ASSERT_NO_FATAL_FAILURE(expect_same(cast, false));
    cast.block.kind = Block::Kind::row;
    ASSERT_NO_FATAL_FAILURE(expect_same(cast, true));
    ASSERT_NO_FATAL_FAILURE(expect_same(with_element("fp32", element), true));
  }
}

TEST_F(ExmyOperands, StochasticRoundingAndSpecialCodes) {
  for (const char* element : kElements) {
    for (const char* format : {"mxfp4", "fp8_e4m3", "fp32"}) {
      Operand cast = with_element(format, element);
      if (cast.scale == ScaleKind::e8m0 && !takes_power_scales(element)) continue;
      cast.rounding = Rounding::stochastic;
      for (const int bits : {8, 16, 32}) {
        cast.sr_bits = bits;
        ASSERT_NO_FATAL_FAILURE(expect_same(cast, false));
      }
      if (cast.element->specials == Specials::none) continue;
      cast.rounding = Rounding::nearest;
      cast.overflow = Overflow::special;
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, true));
    }
  }
}

}  // namespace
}  // namespace ng
