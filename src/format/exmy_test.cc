#include "format/exmy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/codec.h"

namespace ng {
namespace {

enum class Ending { none, fn, fnuz };

/// A format by the words of formats.md §1.1, in doubles: the values of its codes without sign.
struct Definition {
  int x = 0;
  int y = 0;
  Ending ending = Ending::none;

  [[nodiscard]] int bits() const { return 1 + x + y; }
  [[nodiscard]] std::string name() const {
    const char* texts[] = {"", "fn", "fnuz"};
    return fmt::format("float{}_e{}m{}{}", bits(), x, y, texts[static_cast<int>(ending)]);
  }
  [[nodiscard]] int codes() const { return 1 << (x + y); }
  [[nodiscard]] int bias() const { return (1 << (x - 1)) - (ending == Ending::fnuz ? 0 : 1); }
  /// Were every code a number.
  [[nodiscard]] double number(int code) const {
    const int e = code >> y;
    const double m = std::ldexp(static_cast<double>(code & ((1 << y) - 1)), -y);
    return e > 0 ? std::ldexp(1 + m, e - bias()) : std::ldexp(m, 1 - bias());
  }
  [[nodiscard]] int largest() const {
    const int last = codes() - 1;
    if (ending == Ending::none) return (last >> y << y) - 1;
    return ending == Ending::fn && bits() > 6 ? last - 1 : last;
  }
  [[nodiscard]] double value(int code) const {
    if (code <= largest()) return number(code);
    const bool infinity = ending == Ending::none && code == largest() + 1;
    return infinity ? std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  [[nodiscard]] bool exists() const {
    return largest() >= 1 && number(largest()) <= static_cast<double>(kFloatMax);
  }
};

std::vector<Definition> every_format() {
  std::vector<Definition> all;
  for (int x = 1; x <= 8; ++x)
    for (int y = 0; 1 + x + y <= 16; ++y)
      for (const Ending ending : {Ending::none, Ending::fn, Ending::fnuz})
        if (const Definition d{x, y, ending}; d.exists()) all.push_back(d);
  return all;
}

bool same(double expected, float value) {
  if (std::isnan(expected)) return std::isnan(value);
  return expected == static_cast<double>(value) && std::signbit(expected) == std::signbit(value);
}

TEST(Exmy, EveryCodeOfEveryFormatHasTheValueOfTheDefinition) {
  size_t codes = 0;
  for (const Definition& d : every_format()) {
    const ElementFormat& f = element_format(d.name());
    ASSERT_EQ(f.bits, d.bits()) << f.name;
    ASSERT_EQ(code_count(f), static_cast<uint64_t>(2 * d.codes())) << f.name;
    EXPECT_EQ(static_cast<double>(max_value(f)), d.number(d.largest())) << f.name;
    EXPECT_EQ(emax(f), std::ilogb(d.number(d.largest()))) << f.name;
    EXPECT_EQ(static_cast<double>(min_subnormal(f)), d.number(1)) << f.name;
    const std::vector<float> values = decode_table(f);
    for (int code = 0; code < d.codes(); ++code) {
      const double value = d.value(code);
      const bool nan = d.ending == Ending::fnuz && code == 0;  // in place of -0
      const double negative = nan ? std::numeric_limits<double>::quiet_NaN() : -value;
      ASSERT_TRUE(same(value, values[static_cast<size_t>(code)])) << f.name << " " << code;
      ASSERT_TRUE(same(negative, values[static_cast<size_t>(code + d.codes())]))
          << f.name << " -" << code;
      codes += 2;
    }
  }
  EXPECT_GT(codes, 3'000'000U);
}

/// Code of |x|, to nearest even, as though the codes went on above the largest.
int nearest_code(const Definition& d, const std::vector<double>& numbers, double magnitude) {
  const auto above = std::upper_bound(numbers.begin(), numbers.end(), magnitude);
  if (above == numbers.end()) return d.codes();
  const int below = static_cast<int>(above - numbers.begin()) - 1;
  const double middle = (numbers[static_cast<size_t>(below)] + *above) / 2;  // exact
  // n of §2.1 is 1 in every binade of a format without mantissa bits: odd, whatever its code.
  const bool odd = d.y == 0 ? below != 0 : below % 2 != 0;
  const bool up = magnitude > middle || (magnitude == middle && odd);
  return below + (up ? 1 : 0);
}

/// Numbers of the codes to the largest, and the one that would be next.
std::vector<double> numbers_of(const Definition& d) {
  std::vector<double> numbers(static_cast<size_t>(d.largest()) + 1);
  for (size_t code = 0; code < numbers.size(); ++code) numbers[code] = d.number(int(code));
  const double last = numbers.back();
  const double spacing = std::ldexp(1.0, std::max(std::ilogb(last), 1 - d.bias()) - d.y);
  numbers.push_back(last + spacing);
  return numbers;
}

uint32_t expected_code(const Definition& d, const std::vector<double>& numbers, float x,
                       OverflowRule overflow) {
  const int last = d.codes() - 1;
  const int nan = d.ending == Ending::fnuz    ? d.codes()
                  : std::isnan(d.value(last)) ? last
                                              : d.largest();  // no NaN: the largest
  if (std::isnan(x)) return static_cast<uint32_t>(nan);
  int code = std::isinf(x) ? d.codes() : nearest_code(d, numbers, std::fabs(double{x}));
  if (code > d.largest()) {
    code = d.largest();
    if (overflow == OverflowRule::special) {
      if (d.ending == Ending::none)
        code = d.largest() + 1;
      else if (nan != d.largest())
        return static_cast<uint32_t>(nan);
    }
  }
  const bool minus = std::signbit(x) && (code != 0 || d.ending != Ending::fnuz);
  return static_cast<uint32_t>(code + (minus ? d.codes() : 0));
}

/// Both sides of numbers and midpoints spread over the codes, and random bit patterns.
std::vector<float> inputs_of(const Definition& d, const std::vector<double>& numbers) {
  std::vector<float> x = {0.0f, kFloatMax, 0x1p-149f, float_of_bits(kFloatInf),
                          std::numeric_limits<float>::quiet_NaN()};
  const size_t step = numbers.size() / 200 + 1;
  for (size_t i = 0; i + 1 < numbers.size(); i += (i + 4 < numbers.size() ? step : 1)) {
    for (const double at : {numbers[i], (numbers[i] + numbers[i + 1]) / 2}) {
      const auto exact = static_cast<float>(at);
      x.insert(x.end(), {exact, std::nextafter(exact, 0.0f), std::nextafter(exact, kFloatMax)});
    }
  }
  auto state = static_cast<uint32_t>(d.x * 1000 + d.y * 10) + static_cast<uint32_t>(d.ending);
  for (int i = 0; i < 200; ++i) x.push_back(float_of_bits(state = state * 1664525u + 1013904223u));
  return x;
}

TEST(Exmy, EncodingFollowsTheDefinition) {
  for (const Definition& d : every_format()) {
    const ElementFormat& f = element_format(d.name());
    const std::vector<double> numbers = numbers_of(d);
    for (const float magnitude : inputs_of(d, numbers)) {
      for (const float x : {magnitude, -magnitude}) {
        for (const OverflowRule rule : {OverflowRule::saturate, OverflowRule::special})
          ASSERT_EQ(encode(f, x, {}, rule), expected_code(d, numbers, x, rule))
              << f.name << " " << std::hexfloat << x;
      }
    }
  }
}

TEST(Exmy, NamesStandForThemselves) {
  for (const Definition& d : every_format()) {
    const ElementFormat& f = element_format(d.name());
    EXPECT_EQ(&element_format(f.name), &f) << d.name();
    EXPECT_EQ(&element_format(f.short_name), &f) << d.name() << " " << f.short_name;
  }
}

TEST(Exmy, FormatsOfTheTableAreTheirRows) {
  const std::pair<const char*, const char*> names[] = {
      {"e8m7", "bf16"},           {"float16_e8m7", "bf16"},    {"e5m10", "fp16"},
      {"e5m2_ieee", "e5m2"},      {"e4m3fn", "e4m3"},          {"float8_e4m3fn", "e4m3"},
      {"e4m3_ieee", "e4m3_ieee"}, {"e2m1fn", "e2m1"},          {"e3m2fn", "e3m2"},
      {"e4m3fnuz", "e4m3fnuz"},   {"float8_e3m4_ieee", "e3m4"}};
  for (const auto& [spelled, row] : names)
    EXPECT_EQ(&element_format(spelled), &element_format(row)) << spelled;
  EXPECT_EQ(element_format("e3m3").name, "float7_e3m3");
  EXPECT_EQ(element_format("e3m3").short_name, "e3m3");
  EXPECT_EQ(element_format("float6_e3m2").short_name, "e3m2_ieee");
  EXPECT_EQ(element_format("e8m0_ieee").bits, 9);
}

TEST(Exmy, WhatIsNoFormatIsRefusedWithAWayOut) {
  const std::pair<const char*, const char*> names[] = {{"e0m3", "1 to 8"},
                                                       {"e9m3", "1 to 8"},
                                                       {"e8m8", "at most 16: e8m7"},
                                                       {"e1m15", "at most 16: e1m14"},
                                                       {"float8_e3m3", "\"float7_e3m3\""},
                                                       {"e1m0", "e1m0fn"},
                                                       {"e8m3fn", "\"e8m3\" or \"e8m3fnuz\""}};
  for (const auto& [name, remedy] : names) {
    try {
      (void)element_format(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(error.parts().problem.find(fmt::format("\"{}\"", name)), std::string::npos);
      EXPECT_NE(error.parts().remedy.find(remedy), std::string::npos) << error.what();
    }
  }
  for (const char* name : {"", "e", "e3", "e3m", "m3", "e03m2", "e3m2x", "e-3m2", "e3m2fnu",
                           "float_e3m2", "float7", "E3M3", "e3m3 ", "e100m2", "e3m3_"})
    EXPECT_EQ(find_element_format(name), nullptr) << name;
}

TEST(Exmy, FormatsWithoutNanOrInfinity) {
  const ElementFormat& power = element_format("e5m0");  // IEEE-like: infinity, but no NaN
  EXPECT_EQ(encode(power, std::numeric_limits<float>::quiet_NaN()), 0x1Eu);
  EXPECT_EQ(encode(power, 1e9f, {}, OverflowRule::special), 0x1Fu);
  EXPECT_TRUE(std::isinf(decode(power, 0x1F)));
  const ElementFormat& least = element_format("e1m0fn");
  EXPECT_EQ(decode_table(least), (std::vector<float>{0.0f, 2.0f, -0.0f, -2.0f}));
  EXPECT_TRUE(std::isinf(min_normal(element_format("e1m3")))) << "all of it is subnormal";
}

}  // namespace
}  // namespace ng
