#include "format/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"

namespace ng {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A file of tests/golden/casts: one element format, or inputs common to several.
struct CastFile {
  std::string name;
  io::Safetensors tensors;
  [[nodiscard]] bool is_of_one_format() const { return tensors.find("decode") != nullptr; }
};

/// All of them of one kind; fails where there is none.
std::vector<CastFile> cast_files(bool of_one_format) {
  std::set<std::filesystem::path> paths;
  for (const auto& item : std::filesystem::directory_iterator(NG_SOURCE_DIR "/tests/golden/casts"))
    if (item.path().extension() == ".safetensors") paths.insert(item.path());
  std::vector<CastFile> files;
  for (const std::filesystem::path& path : paths) {
    CastFile file{path.stem(), io::Safetensors(path)};
    if (file.is_of_one_format() == of_one_format) files.push_back(std::move(file));
  }
  EXPECT_FALSE(files.empty());
  return files;
}

/// Equal codes, or both NaN; formats without NaN have no comparable code for a NaN input.
bool same_cast(const ElementFormat& f, float x, uint32_t ours, uint32_t theirs) {
  if (ours == theirs) return true;
  if (std::isnan(x) && f.specials == Specials::none) return true;
  return std::isnan(decode(f, ours)) && std::isnan(decode(f, theirs));
}

float clamped(const ElementFormat& f, float x, bool infinities) {
  if (std::isinf(x) && !infinities) return x;
  return x > max_value(f) ? max_value(f) : x < -max_value(f) ? -max_value(f) : x;
}

void expect_casts(const ElementFormat& f, const std::vector<float>& x,
                  const std::vector<int64_t>& codes, OverflowRule overflow, const std::string& at) {
  ASSERT_EQ(x.size(), codes.size()) << at;
  int failures = 0;
  for (size_t i = 0; i < x.size() && failures < 5; ++i) {
    const uint32_t code = encode(f, x[i], {}, overflow);
    const auto expected = static_cast<uint32_t>(codes[i]);
    if (same_cast(f, x[i], code, expected)) continue;
    ++failures;
    ADD_FAILURE() << f.name << " " << at << "[" << i << "] x = " << std::hexfloat << x[i]
                  << std::hex << " code " << code << " expected " << expected;
  }
}

/// The codes that one tensor of a file holds of the inputs x: `kind` is "codes" (nothing clamped),
/// "codes_sat" (finite inputs) or "codes_satinf" (infinities too).
void expect_kind(const ElementFormat& f, const std::vector<float>& x,
                 const io::SafetensorsEntry& entry, const std::string& kind) {
  ASSERT_TRUE(kind == "codes" || kind == "codes_sat" || kind == "codes_satinf") << entry.name;
  const std::vector<int64_t> codes = io::to_integers(entry);
  std::vector<float> input = x;
  if (kind != "codes")
    for (float& v : input) v = clamped(f, v, kind == "codes_satinf");
  // Formats without NaN saturate in the oracle whatever is asked.
  expect_casts(f, input, codes, OverflowRule::special, entry.name);
  if (kind == "codes_satinf")  // our own saturation, infinities included
    expect_casts(f, x, codes, OverflowRule::saturate, entry.name);
}

TEST(Decode, EveryCodeEqualsTheGoldenValue) {
  for (const CastFile& file : cast_files(true)) {
    const ElementFormat& f = element_format(file.name);
    const std::vector<float> expected = io::to_floats(file.tensors.at("decode"));
    ASSERT_EQ(expected.size(), code_count(f)) << f.name;
    const std::vector<float> values = decode_table(f);
    for (size_t code = 0; code < values.size(); ++code) {
      if (std::isnan(expected[code])) {
        EXPECT_TRUE(std::isnan(values[code])) << f.name << " " << code;
      } else {
        EXPECT_EQ(float_bits(values[code]), float_bits(expected[code])) << f.name << " " << code;
      }
    }
  }
}

TEST(Encode, EveryGoldenCastIsEqual) {
  for (const CastFile& file : cast_files(true)) {
    int compared = 0;
    for (const io::SafetensorsEntry& entry : file.tensors.entries()) {
      const size_t dot = entry.name.rfind('.');
      if (entry.name == "decode" || entry.name.ends_with(".x")) continue;
      const std::vector<float> x = io::to_floats(file.tensors.at(entry.name.substr(0, dot) + ".x"));
      expect_kind(element_format(file.name), x, entry, entry.name.substr(dot + 1));
      ++compared;
    }
    EXPECT_GT(compared, 0) << file.name;
  }
}

TEST(Encode, RandomBitPatternsEqualTheGoldenCodes) {
  for (const CastFile& file : cast_files(false)) {
    const std::vector<float> x = io::to_floats(file.tensors.at("x"));
    ASSERT_GT(file.tensors.entries().size(), 1u) << file.name;
    for (const io::SafetensorsEntry& entry : file.tensors.entries()) {
      if (entry.name == "x") continue;
      const size_t dot = entry.name.rfind('.');
      expect_kind(element_format(entry.name.substr(0, dot)), x, entry, entry.name.substr(dot + 1));
    }
  }
}

TEST(Table, RangesAreThoseOfTheSpecification) {
  struct Row {
    const char* name;
    int emax;
    float max, min_normal, min_subnormal;
  };
  const Row rows[] = {
      {"fp32", 127, kFloatMax, 0x1p-126f, 0x1p-149f},
      {"fp16", 15, 65504, 0x1p-14f, 0x1p-24f},
      {"bf16", 127, 0x1.FEp127f, 0x1p-126f, 0x1p-133f},
      {"e5m2", 15, 57344, 0x1p-14f, 0x1p-16f},
      {"e4m3", 8, 448, 0x1p-6f, 0x1p-9f},
      {"e4m3_ieee", 7, 240, 0x1p-6f, 0x1p-9f},
      {"e3m4", 3, 15.5, 0x1p-2f, 0x1p-6f},
      {"e4m3fnuz", 7, 240, 0x1p-7f, 0x1p-10f},
      {"e5m2fnuz", 15, 57344, 0x1p-15f, 0x1p-17f},
      {"e4m3b11fnuz", 4, 30, 0x1p-10f, 0x1p-13f},
      {"e3m2", 4, 28, 0x1p-2f, 0x1p-4f},
      {"e2m3", 2, 7.5, 1, 0x1p-3f},
      {"e2m1", 2, 6, 1, 0.5},
      {"e8m0", 127, 0x1p127f, 0x1p-127f, 0x1p-127f},
      {"ue4m3", 8, 448, 0x1p-6f, 0x1p-9f},
      {"int8", 6, 127, 1, 1},
      {"uint8", 7, 255, 1, 1},
      {"int4", 2, 7, 1, 1},
      {"uint4", 3, 15, 1, 1},
      {"ternary", 0, 1, 1, 1},
      {"mxint8", 0, 127.0f / 64, 0x1p-6f, 0x1p-6f},
  };
  ASSERT_EQ(std::size(rows), element_formats().size());
  for (size_t i = 0; i < std::size(rows); ++i) {
    const ElementFormat& f = element_format(rows[i].name);
    EXPECT_EQ(&f, &element_formats()[i]) << "order of formats.md 1.2";
    EXPECT_EQ(&f, &element_format(f.name));
    EXPECT_EQ(emax(f), rows[i].emax) << f.name;
    EXPECT_EQ(max_value(f), rows[i].max) << f.name;
    EXPECT_EQ(min_normal(f), rows[i].min_normal) << f.name;
    EXPECT_EQ(min_subnormal(f), rows[i].min_subnormal) << f.name;
  }
}

TEST(Table, UnknownNamesAreRefusedWithTheNearest) {
  try {
    (void)element_format("e4n3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("e4m3"), std::string::npos) << error.what();
  }
}

TEST(Encode, EveryFiniteCodeIsAFixedPointOfEveryRounding) {
  for (const ElementFormat& f : element_formats()) {
    if (f.bits > 16) continue;
    for (uint32_t code = 0; code < code_count(f); ++code) {
      const float value = decode(f, code);
      if (!std::isfinite(value) || std::fabs(value) > max_value(f)) continue;  // -128 of int8
      for (const RoundMode mode :
           {RoundMode::rne, RoundMode::rna, RoundMode::rtz, RoundMode::rup, RoundMode::sr}) {
        const Rounder rounder{.mode = mode, .bits = 16, .random = 0xFFFF};
        EXPECT_EQ(encode(f, value, rounder), code) << f.name << " " << value;
      }
    }
  }
}

TEST(Encode, SubnormalsAreFlushedToZerosOfTheirSign) {
  int flushed = 0;
  for (const ElementFormat& f : element_formats()) {
    if (f.bits > 16) continue;
    const ElementCodec kept(f), codec(f, Subnormals::flush);
    for (uint32_t code = 0; code < code_count(f); ++code) {
      const float value = decode(f, code);
      if (!std::isfinite(value) || std::fabs(value) > max_value(f)) continue;
      const bool is_below = has_subnormals(f) && value != 0 && std::fabs(value) < min_normal(f);
      const float want = is_below ? std::copysign(0.0f, value) : value;
      EXPECT_EQ(codec.encode(value), kept.encode(want)) << f.name << " " << value;
      flushed += is_below ? 1 : 0;
    }
  }
  EXPECT_GT(flushed, 100);
  EXPECT_FALSE(has_subnormals(element_format("int8")));
  EXPECT_FALSE(has_subnormals(element_format("e3m0")));
  EXPECT_FALSE(has_subnormals(element_format("e1m2")));  // has no normal number
}

/// floor of |x| to the format's grid, the fraction above it, and whether the floor is odd: written
/// with doubles and the code list alone.
struct Place {
  uint32_t below = 0;
  double fraction = 0;
};
Place place_of(const ElementFormat& f, double magnitude) {
  uint32_t below = 0;
  while (decode(f, below + 1) <= magnitude) ++below;
  const double low = decode(f, below);
  return {below, (magnitude - low) / (static_cast<double>(decode(f, below + 1)) - low)};
}

TEST(Encode, RoundingsFollowTheirDefinitionBetweenAllNeighbours) {
  for (const char* name : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "e3m4", "e4m3fnuz", "mxint8"}) {
    const ElementFormat& f = element_format(name);
    for (uint32_t code = 0; decode(f, code) < max_value(f); ++code) {
      const float low = decode(f, code);
      const float high = decode(f, code + 1);
      const float middle = low + (high - low) / 2;  // exact
      for (const float x : {std::nextafter(low, high), std::nextafter(middle, low), middle,
                            std::nextafter(middle, high), std::nextafter(high, low)}) {
        const bool odd = code % 2 != 0;
        const bool nearest_up = x > middle || (x == middle && odd);
        EXPECT_EQ(encode(f, x, {.mode = RoundMode::rne}), code + (nearest_up ? 1 : 0));
        EXPECT_EQ(encode(f, x, {.mode = RoundMode::rna}), code + (x >= middle ? 1 : 0));
        EXPECT_EQ(encode(f, x, {.mode = RoundMode::rtz}), code);
        EXPECT_EQ(encode(f, x, {.mode = RoundMode::rup}), code + 1);
      }
    }
  }
}

TEST(StochasticRounding, CountsOfAll256RAreFloorOfFTimes256) {
  for (const char* name : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "mxint8", "fp16"}) {
    const ElementFormat& f = element_format(name);
    const std::vector<float> cases = {0.3f, 0.75f, 1.01f, 1.75f, 1.99f,    2.2f,   4.3f, 5.999f,
                                      0.1f, 1e-3f, 6e-5f, 0.5f,  0x1p-12f, 1e-30f, 1.0f, 0x1p-149f};
    for (const float x : cases) {
      if (x > max_value(f)) continue;
      const Place place = place_of(f, x);
      for (const float sign : {1.0f, -1.0f}) {
        int ups = 0;
        for (uint32_t r = 0; r < 256; ++r) {
          const uint32_t code =
              encode(f, sign * x, {.mode = RoundMode::sr, .bits = 8, .random = r});
          const double value = std::fabs(decode(f, code));
          ASSERT_TRUE(value == decode(f, place.below) || value == decode(f, place.below + 1));
          ups += value > decode(f, place.below) ? 1 : 0;
        }
        EXPECT_EQ(ups, static_cast<int>(std::floor(place.fraction * 256))) << name << " " << x;
      }
    }
  }
}

TEST(StochasticRounding, WideFormsFollowTheDefinition) {
  // up iff floor(f·2^r) + R >= 2^r, at the two R where the answer changes.
  for (const char* name : {"e2m1", "e4m3", "e5m2", "bf16"}) {
    const ElementFormat& f = element_format(name);
    for (const int bits : {16, 32}) {
      for (const float x : {2.2f, 1.0000001f, 0x1.000002p-7f, 5.5f, 0.26f, 1.5f, 1e-3f}) {
        const Place place = place_of(f, x);
        const double steps = std::ldexp(1.0, bits);
        const double threshold = steps - std::floor(place.fraction * steps);  // least R going up
        for (const double r : {threshold - 1, threshold, 0.0, steps - 1}) {
          if (r < 0 || r >= steps) continue;
          const Rounder rounder{
              .mode = RoundMode::sr, .bits = bits, .random = static_cast<uint32_t>(r)};
          EXPECT_EQ(encode(f, x, rounder), place.below + (r >= threshold ? 1 : 0))
              << name << " " << x << " r " << bits << " R " << r;
        }
      }
    }
  }
}

TEST(StochasticRounding, BitFormOfTheSpecificationIsTheSame) {
  // u' = (u + (R << (d - r))) & ~(2^d - 1) on the FP32 bits, d = 23 - y, for normal results.
  const ElementFormat& f = element_format("e4m3");
  constexpr int d = 20;
  for (uint32_t i = 0; i < 20000; ++i) {
    const float x = float_of_bits(float_bits(0.03f) + i * 1237u);
    const uint32_t r = (i * 2654435761u) >> 16;
    const uint32_t bits = (float_bits(x) + (r << (d - 16))) & ~((1u << d) - 1);
    const uint32_t code = encode(f, x, {.mode = RoundMode::sr, .bits = 16, .random = r});
    EXPECT_EQ(decode(f, code), float_of_bits(bits)) << x << " " << r;
  }
}

TEST(Encode, OverflowPoliciesAndSpecialValues) {
  const auto code = [](const char* name, float x, OverflowRule rule) {
    return encode(element_format(name), x, {}, rule);
  };
  using enum OverflowRule;
  EXPECT_EQ(code("e4m3", 464.0f, special), 0x7Eu);  // the tie stays below
  EXPECT_EQ(code("e4m3", 465.0f, special), 0x7Fu);
  EXPECT_EQ(code("e4m3", -465.0f, special), 0x7Fu);  // the sign of NaN is dropped
  EXPECT_EQ(code("e4m3", -1e9f, saturate), 0xFEu);
  EXPECT_EQ(code("e4m3", -kInf, saturate), 0xFEu);
  EXPECT_EQ(code("e4m3", kInf, special), 0x7Fu);
  EXPECT_EQ(code("e5m2", -kInf, special), 0xFCu);
  EXPECT_EQ(code("e5m2", kInf, saturate), 0x7Bu);
  EXPECT_EQ(code("e5m2", -kNan, saturate), 0x7Fu);
  EXPECT_EQ(code("e4m3fnuz", kNan, saturate), 0x80u);
  EXPECT_EQ(code("e4m3fnuz", 1e9f, special), 0x80u);
  EXPECT_EQ(code("e4m3fnuz", -0.0f, saturate), 0u);
  EXPECT_EQ(code("e4m3fnuz", -1e-9f, saturate), 0u);
  EXPECT_EQ(code("e4m3", -1e-9f, saturate), 0x80u);
  for (const char* name : {"e2m1", "e2m3", "e3m2"}) {
    const ElementFormat& f = element_format(name);
    const uint32_t largest = (1u << (f.bits - 1)) - 1;
    for (const OverflowRule rule : {saturate, special}) {
      EXPECT_EQ(code(name, kNan, rule), largest);
      EXPECT_EQ(code(name, kInf, rule), largest);
      EXPECT_EQ(code(name, -1e9f, rule), largest | (largest + 1));
    }
  }
}

TEST(Encode, Integers) {
  const ElementFormat& int8 = element_format("int8");
  EXPECT_EQ(encode(int8, -63.5f), 0xC0u);  // tie to even -64
  EXPECT_EQ(encode(int8, -128.0f), 0x81u);
  EXPECT_EQ(encode(int8, 1e30f), 0x7Fu);
  EXPECT_EQ(encode(int8, kNan), 0x7Fu);
  EXPECT_EQ(encode(int8, -kInf), 0x81u);
  EXPECT_EQ(encode(element_format("uint8"), -3.0f), 0u);
  EXPECT_EQ(encode(element_format("uint8"), 254.5f), 254u);
  EXPECT_EQ(encode(element_format("uint4"), 99.0f), 15u);
  EXPECT_EQ(encode(element_format("int4"), -9.0f), 0x9u);
  EXPECT_EQ(decode(element_format("int4"), 0x8), -8.0f);
  EXPECT_EQ(decode(element_format("mxint8"), 0x80), -2.0f);
  EXPECT_EQ(encode(element_format("mxint8"), -2.0f), 0x81u);
  EXPECT_EQ(encode(element_format("mxint8"), 1.0f), 64u);
}

// Codes 0, 1 and 3 of an integer of two bits; 2, which no rounding gives, is -2.
TEST(Encode, TernaryElements) {
  const ElementFormat& ternary = element_format("ternary");
  EXPECT_EQ(decode_table(ternary), (std::vector<float>{0, 1, -2, -1}));
  for (const float x : {0.0f, -0.0f, 0.5f, -0.5f, 1e-30f})
    EXPECT_EQ(encode(ternary, x), 0u) << x << ": a tie is even";
  for (const float x : {std::nextafter(0.5f, 1.0f), 1.0f, 1.5f, 9.0f, kInf, kNan})
    EXPECT_EQ(encode(ternary, x), 1u) << x;
  for (const float x : {std::nextafter(-0.5f, -1.0f), -1.0f, -1.5f, -9.0f, -kInf})
    EXPECT_EQ(encode(ternary, x), 3u) << x;
}

TEST(Encode, IntegersRoundStochasticallyByFloor) {
  // floor(x + R / 256) for all R, both signs. [formats.md 6]
  const ElementFormat& f = element_format("int8");
  for (const float x : {0.0f, 2.5f, -2.5f, -0.001f, 0.999f, 126.9f, -126.9f, 0x1p-149f, 3.0f, -3.0f,
                        -0x1.FFFFFEp-33f}) {
    for (uint32_t r = 0; r < 256; ++r) {
      const uint32_t code = encode(f, x, {.mode = RoundMode::sr, .bits = 8, .random = r});
      EXPECT_EQ(decode(f, code), std::floor(static_cast<double>(x) + r / 256.0)) << x << " " << r;
    }
  }
  // A sum that FP64 would round up to the next integer.
  const Rounder last{.mode = RoundMode::sr, .bits = 32, .random = 0xFFFFFFFFu};
  EXPECT_EQ(encode(f, 0x1.FFFFFEp-33f, last), 0u);
  EXPECT_EQ(encode(f, 0x1p-32f, last), 1u);
}

}  // namespace
}  // namespace ng
