// The sampled form of exhaustive_casts: every 65,537th FP32 pattern and the neighbourhood of every
// code and every midpoint, on every instruction set of this CPU, nearest even, both policies.
#include <gtest/gtest.h>

#include <cmath>

#include "base/isa.h"
#include "element_casts.h"

namespace ng::exhaustive {
namespace {

constexpr int64_t kCols = 509;  // odd: a number meets another vector lane in every row

/// The pattern and its two neighbours, with both signs.
void add_around(float x, std::vector<float>& inputs) {
  const uint32_t u = float_bits(x) & 0x7FFFFFFFu;
  for (const uint32_t near : {u - 1, u, u + 1})
    for (const uint32_t sign : {0u, 0x80000000u}) inputs.push_back(float_of_bits(near ^ sign));
}

std::vector<float> inputs_of(const ElementFormat& format) {
  std::vector<float> inputs;
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 65537)
    inputs.push_back(float_of_bits(static_cast<uint32_t>(u)));
  for (const float special : {0.0f, 1e-45f, 0x1p-126f, kFloatMax, HUGE_VALF, NAN})
    add_around(special, inputs);
  for (uint32_t code = 0; code + 1 < code_count(format); ++code) {
    const double low = decode(format, code);
    const double high = decode(format, code + 1);
    if (!std::isfinite(low)) continue;
    add_around(static_cast<float>(low), inputs);
    // Of two values with at most 8 significant bits the midpoint is an FP32 number, but for E8M0's
    // least two.
    if (std::isfinite(high)) add_around(static_cast<float>((low + high) / 2), inputs);
  }
  // Where the step above the largest value would end: overflow begins at the midpoint before it.
  const float top = max_value(format);
  for (const float above : {1.03125f, 1.0625f, 1.125f, 1.25f, 1.5f, 2.0f})
    if (std::isfinite(top * above)) add_around(top * above, inputs);
  while (inputs.size() % kCols != 0) inputs.push_back(1.0f);
  return inputs;
}

void expect_definition(const ElementCast& cast, const std::vector<float>& inputs,
                       const std::vector<uint8_t>& want) {
  CpuCaster caster(cast, static_cast<int64_t>(inputs.size()) / kCols, kCols);
  const std::vector<uint16_t>& got = caster.codes(inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << std::hex << "0x" << float_bits(inputs[i]) << std::dec << " = "
                               << inputs[i];
}

TEST(SampledCasts, EveryInstructionSetEqualsTheDefinition) {
  for (const ElementFormat* format : narrow_formats()) {
    const std::vector<float> inputs = inputs_of(*format);
    std::vector<uint8_t> want(inputs.size());
    for (const ElementCast& cast : casts_of(*format)) {
      codes_by_definition(cast, inputs, want);
      for (const Isa isa : supported_isas()) {
        SCOPED_TRACE(cast.text() + " " + std::string(name_of(isa)));
        force_isa(isa);
        ASSERT_NO_FATAL_FAILURE(expect_definition(cast, inputs, want));
      }
    }
  }
  force_isa("auto");
}

// The comparison itself: a definition that rounded otherwise would be noticed.
TEST(SampledCasts, InputsTellRoundingsApart) {
  for (const ElementFormat* format : narrow_formats()) {
    int away = 0, toward = 0;
    for (const float x : inputs_of(*format)) {
      const uint32_t even = encode(*format, x);
      away += even != encode(*format, x, {.mode = RoundMode::rna}) ? 1 : 0;
      toward += even != encode(*format, x, {.mode = RoundMode::rtz}) ? 1 : 0;
    }
    const bool ties_differ = format->kind != ElementKind::power;  // there both go up
    EXPECT_EQ(away > 0, ties_differ) << format->name;
    EXPECT_GT(toward, 0) << format->name;
  }
}

}  // namespace
}  // namespace ng::exhaustive
