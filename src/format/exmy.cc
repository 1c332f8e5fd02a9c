#include "format/exmy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace ng {
namespace {

constexpr int kMaxExponentBits = 8;
constexpr int kMaxBits = 16;
constexpr int kMostMantissas = kMaxBits - 1;  // Y in 0 ... 14
constexpr std::array kEndings = {Specials::ieee, Specials::fn, Specials::fnuz};
constexpr size_t kFormatCount = kMaxExponentBits * kMostMantissas * kEndings.size();

/// Parameters of a name; `bits` is 0 where it does not say.
struct Spelling {
  int bits = 0;
  int exponent_bits = 0;
  int mantissa_bits = 0;
  Specials ending = Specials::ieee;

  [[nodiscard]] constexpr int needed_bits() const { return 1 + exponent_bits + mantissa_bits; }
};

constexpr size_t index_of(const Spelling& s) {
  const auto place = static_cast<size_t>((s.exponent_bits - 1) * kMostMantissas + s.mantissa_bits);
  return place * kEndings.size() + static_cast<size_t>(s.ending);
}

constexpr Spelling spelling_at(size_t index) {
  const int place = static_cast<int>(index / kEndings.size());
  return {.exponent_bits = place / kMostMantissas + 1,
          .mantissa_bits = place % kMostMantissas,
          .ending = kEndings[index % kEndings.size()]};
}

/// Text of at most 23 characters.
struct Name {
  std::array<char, 24> text{};
  size_t size = 0;

  constexpr Name& operator+=(std::string_view more) {
    for (const char c : more) text[size++] = c;
    return *this;
  }
  constexpr Name& operator+=(int number) {
    if (number >= 10) text[size++] = static_cast<char>('0' + number / 10);
    text[size++] = static_cast<char>('0' + number % 10);
    return *this;
  }
  [[nodiscard]] constexpr std::string_view view() const { return {text.data(), size}; }
};

constexpr std::string_view kEndingTexts[] = {"", "fn", "fnuz"};

constexpr Name bare_name(const Spelling& s) {
  Name name;
  ((name += "e") += s.exponent_bits) += "m";
  return (name += s.mantissa_bits) += kEndingTexts[static_cast<size_t>(s.ending)];
}

constexpr Name full_name(const Spelling& s) {
  Name name;
  return (((name += "float") += s.needed_bits()) += "_") += bare_name(s).view();
}

/// Short names of the table that do not stand for the IEEE-like format of their bits.
constexpr bool is_taken(std::string_view name) {
  return name == "e4m3" || name == "e3m2" || name == "e2m3" || name == "e2m1" || name == "e8m0";
}

constexpr Name short_name(const Spelling& s) {
  Name name = bare_name(s);
  return is_taken(name.view()) ? name += "_ieee" : name;
}

constexpr auto kFullNames = [] {
  std::array<Name, kFormatCount> names;
  for (size_t i = 0; i < kFormatCount; ++i) names[i] = full_name(spelling_at(i));
  return names;
}();

constexpr auto kShortNames = [] {
  std::array<Name, kFormatCount> names;
  for (size_t i = 0; i < kFormatCount; ++i) names[i] = short_name(spelling_at(i));
  return names;
}();

/// All of them, also those that are refused or rows of the table: only a name makes one known.
constexpr auto kExmyFormats = [] {
  std::array<ElementFormat, kFormatCount> formats{};
  for (size_t i = 0; i < kFormatCount; ++i) {
    const Spelling s = spelling_at(i);
    const bool all_numbers = s.ending == Specials::fn && s.needed_bits() <= 6;
    formats[i] = {.name = kFullNames[i].view(),
                  .short_name = kShortNames[i].view(),
                  .kind = ElementKind::floating,
                  .is_signed = true,
                  .bits = s.needed_bits(),
                  .exponent_bits = s.exponent_bits,
                  .mantissa_bits = s.mantissa_bits,
                  .bias = (1 << (s.exponent_bits - 1)) - (s.ending == Specials::fnuz ? 0 : 1),
                  .specials = all_numbers ? Specials::none : s.ending,
                  .safetensors = ""};
  }
  return formats;
}();

/// Takes `prefix` off the text.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Takes one or two digits without a leading zero off the text.
bool take(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto size = static_cast<size_t>(end - text.data());
  if (error != std::errc() || size > 2 || text[0] == '-' || (size == 2 && text[0] == '0'))
    return false;
  text.remove_prefix(size);
  return true;
}

std::optional<Spelling> spelling_of(std::string_view name) {
  Spelling s;
  if (take(name, "float") && (!take(name, s.bits) || !take(name, "_"))) return {};
  if (!take(name, "e") || !take(name, s.exponent_bits) || !take(name, "m") ||
      !take(name, s.mantissa_bits))
    return {};
  if (name == "_ieee") return s;
  const auto* const ending = std::find(std::begin(kEndingTexts), std::end(kEndingTexts), name);
  if (ending == std::end(kEndingTexts)) return {};
  s.ending = kEndings[static_cast<size_t>(ending - kEndingTexts)];
  return s;
}

[[noreturn]] void refuse(std::string_view name, std::string_view problem, std::string remedy) {
  throw Error({.place = {},
               .key = {},
               .problem = fmt::format("element format \"{}\" {}", name, problem),
               .remedy = std::move(remedy)});
}

void check(std::string_view name, const Spelling& s) {
  if (s.exponent_bits < 1 || s.exponent_bits > kMaxExponentBits)
    refuse(name, fmt::format("has {} exponent bits", s.exponent_bits), "1 to 8");
  if (s.needed_bits() > kMaxBits)
    refuse(name, fmt::format("has 1 + {} + {} bits", s.exponent_bits, s.mantissa_bits),
           fmt::format("at most {}: e{}m{}", kMaxBits, s.exponent_bits,
                       kMaxBits - 1 - s.exponent_bits));
  if (s.bits != 0 && s.bits != s.needed_bits())
    refuse(name, fmt::format("has 1 + {} + {} bits", s.exponent_bits, s.mantissa_bits),
           fmt::format("\"{}\"", full_name(s).view()));
  if (s.exponent_bits == 1 && s.mantissa_bits == 0 && s.ending == Specials::ieee)
    refuse(name, "has no number but zero: its other codes are infinities",
           "\"e1m0fn\", or one more exponent or mantissa bit");
  // Exponents to 128 where all ones is not reserved, unless the only such code is the NaN.
  if (s.exponent_bits == 8 && s.mantissa_bits > 0 && s.ending == Specials::fn)
    refuse(name, "reaches 2^128, which FP32 does not hold",
           fmt::format("\"e8m{}\" or \"e8m{}fnuz\"", s.mantissa_bits, s.mantissa_bits));
}

bool is_same_number(const ElementFormat& a, const ElementFormat& b) {
  return a.kind == b.kind && a.is_signed == b.is_signed && a.bits == b.bits &&
         a.exponent_bits == b.exponent_bits && a.bias == b.bias && a.specials == b.specials;
}

}  // namespace

const ElementFormat* exmy_format(std::string_view name) {
  const std::optional<Spelling> spelling = spelling_of(name);
  if (!spelling) return nullptr;
  check(name, *spelling);
  const ElementFormat& format = kExmyFormats[index_of(*spelling)];
  for (const ElementFormat& row : element_formats())
    if (is_same_number(row, format)) return &row;
  return &format;
}

}  // namespace ng
