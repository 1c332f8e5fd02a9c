#include <narrowgauge/formats.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/nearest.h"
#include "format/cast_names.h"
#include "format/codec.h"
#include "format/exmy.h"
#include "format/operand_conflict.h"
#include "format/operand_table.h"
#include "library/access.h"

namespace narrowgauge {
namespace {

bool is_random_bits(int bits) { return bits == 8 || bits == 16 || bits == 32; }

void check_block(const Block& block) {
  if (block.kind != Block::Kind::tile) return;
  const auto is_power = [](int n) {
    return n > 0 && std::has_single_bit(static_cast<unsigned>(n));
  };
  require(is_power(block.rows) && block.rows <= 128 && is_power(block.cols) && block.cols >= 16 &&
              block.cols <= 128,
          fmt::format("block of {} x {}", block.rows, block.cols),
          "rows 1, 2, 4 ... 128 and cols 16, 32, 64 or 128");
}

/// Elements whose scaled form no GEMM takes.
void check_rare_element(const Format& format) {
  const ng::ElementFormat& element = ElementAccess::format_of(format.element);
  const bool integer = element.kind == ng::ElementKind::integer;
  if (element.is_signed && element.kind != ng::ElementKind::power) return;
  const std::string name(element.short_name);
  require(format.scale == ScaleKind::none || (integer && format.scale == ScaleKind::fp32),
          "this scale for " + name + " elements", integer ? "none or fp32" : "none");
  require(format.prescale == 1.0f, "a prescale for " + name + " elements", "1");
}

}  // namespace

Element::Element(std::string_view name)
    : format_(translated([&] { return &ng::element_format(name); })) {}

std::string_view Element::name() const noexcept { return format_->name; }
std::string_view Element::short_name() const noexcept { return format_->short_name; }
ElementKind Element::kind() const noexcept { return format_->kind; }
Specials Element::specials() const noexcept { return format_->specials; }
bool Element::is_signed() const noexcept { return format_->is_signed; }
int Element::bits() const noexcept { return format_->bits; }
int Element::exponent_bits() const noexcept { return format_->exponent_bits; }
int Element::mantissa_bits() const noexcept { return format_->mantissa_bits; }
int Element::bias() const noexcept { return format_->bias; }
float Element::max() const { return ng::max_value(*format_); }
int Element::max_exponent() const { return ng::emax(*format_); }
float Element::min_normal() const { return ng::min_normal(*format_); }
float Element::min_subnormal() const { return ng::min_subnormal(*format_); }
uint64_t Element::code_count() const { return ng::code_count(*format_); }

float Element::decode(uint32_t code) const {
  require(code < code_count(), fmt::format("code {} of {}", code, short_name()),
          fmt::format("below {}", code_count()));
  return ng::decode(*format_, code);
}

std::vector<float> Element::values() const {
  require(bits() <= 16, fmt::format("a list of all values of {}", short_name()),
          "an element of at most 16 bits");
  return ng::decode_table(*format_);
}

uint32_t Element::encode(float x, const ValueRounding& rounding, Overflow overflow) const {
  const bool stochastic = rounding.mode == Rounding::stochastic;
  ng::Rounder rounder;
  if (stochastic) {
    require(is_random_bits(rounding.random_bits),
            fmt::format("{} random bits", rounding.random_bits), "8, 16 or 32");
    require((uint64_t{rounding.random} >> rounding.random_bits) == 0,
            fmt::format("random number {}", rounding.random),
            fmt::format("below 2^{}", rounding.random_bits));
    rounder = {ng::RoundMode::sr, rounding.random_bits, rounding.random};
  }
  return ng::encode(*format_, x, rounder, ng::overflow_rule(overflow));
}

std::vector<std::string_view> element_names() {
  std::vector<std::string_view> names;
  for (const ng::ElementFormat& element : ng::element_formats())
    names.push_back(element.short_name);
  return names;
}

std::vector<std::string_view> format_names() { return ng::cast_names(); }

Format format(std::string_view name) {
  return translated([&] {
    if (const auto cast = ng::find_cast(name)) return format_of(*cast);
    std::vector<std::string_view> names = format_names();
    const ng::ElementFormat* element = ng::find_element_format(name);
    for (const std::string_view other : element_names()) names.push_back(other);
    if (element == nullptr)
      throw Error(fmt::format("unknown format \"{}\"", name),
                  fmt::format("{}known: {}, and {}", ng::did_you_mean(name, names),
                              fmt::join(names, " "), ng::kExmyNames));
    return Format{.element = ElementAccess::element_of(*element)};
  });
}

namespace {

/// each(field, the same of the operand), all but the element.
template <class Format, class Operand, class Each>
void for_fields(Format& format, Operand& operand, const Each& each) {
  each(format.block, operand.block);
  each(format.scale, operand.scale);
  each(format.tensor_scale, operand.tensor_scale);
  each(format.scale_rule, operand.scale_rule);
  each(format.fit, operand.fit);
  each(format.select, operand.select);
  each(format.scale_max, operand.scale_max);
  each(format.rounding, operand.rounding);
  each(format.random_bits, operand.sr_bits);
  each(format.overflow, operand.overflow);
  each(format.subnormals, operand.subnormals);
  each(format.prescale, operand.prescale);
}

}  // namespace

Format format_of(const ng::Operand& operand) {
  Format out{.element = ElementAccess::element_of(*operand.element)};
  for_fields(out, operand, [](auto& field, const auto& value) { field = value; });
  return out;
}

ng::Operand operand_of(const Format& format) {
  ng::Operand out;
  out.element = &ElementAccess::format_of(format.element);
  for_fields(format, out, [](const auto& value, auto& field) { field = value; });
  return out;
}

namespace {

/// An enumeration's value may be any integer of its type.
template <class Enum>
void check_enum(const char* what, Enum value, Enum last) {
  require(value <= last, fmt::format("{} {}", what, static_cast<int>(value)),
          fmt::format("0 to {}", static_cast<int>(last)));
}

void check_enums(const Format& format) {
  check_enum("block kind", format.block.kind, Block::Kind::tile);
  check_enum("scale", format.scale, ScaleKind::e4m3);
  check_enum("tensor scale", format.tensor_scale, ScaleKind::e4m3);
  check_enum("scale rule", format.scale_rule, ScaleRule::up);
  check_enum("select", format.select, Select::max);
  check_enum("rounding", format.rounding, Rounding::stochastic);
  check_enum("overflow", format.overflow, Overflow::special);
  check_enum("subnormals", format.subnormals, Subnormals::flush);
}

}  // namespace

void check(const Format& format) {
  check_enums(format);
  require(format.element.bits() <= 16, "fp32 has nothing to round to", "at most 16 bits");
  require(format.rounding == Rounding::nearest || is_random_bits(format.random_bits),
          fmt::format("{} random bits", format.random_bits), "8, 16 or 32");
  require(format.prescale >= 0x1p-16f && format.prescale <= 0x1p16f,
          fmt::format("prescale {}", format.prescale), "2^-16 ... 2^16");
  check_block(format.block);
  check_rare_element(format);
  const ng::Operand operand = operand_of(format);
  const auto conflict = ng::conflict_of(operand);
  if (conflict)
    throw Error(fmt::format("{}: {}", conflict->key, conflict->problem), conflict->remedy);
  try {
    ng::check_numbers(operand);
  } catch (const ng::Error& error) {
    const ng::Error::Parts& parts = error.parts();
    throw Error(fmt::format("{}: {}", parts.key, parts.problem), parts.remedy);
  }
}

double bits_per_value(const Format& format) { return ng::bits_per_value(operand_of(format)); }

std::string describe(const Format& format) { return ng::describe(operand_of(format)); }

}  // namespace narrowgauge
