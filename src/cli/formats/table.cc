#include "cli/formats/table.h"

#include "base/json.h"
#include "cli/formats/bits.h"
#include "cli/output.h"
#include "format/cast_names.h"
#include "format/codec.h"

namespace ng::cli {
namespace {

constexpr std::string_view kKinds[] = {"floating", "power", "integer"};
constexpr std::string_view kSpecials[] = {"ieee", "fn", "fnuz", "none"};

uint32_t max_code(const ElementFormat& f) {
  return encode(f, max_value(f), {}, OverflowRule::saturate);
}

/// How many codes are numbers, and how many of those differ (-0 is 0).
struct Count {
  uint64_t finite = 0;
  uint64_t distinct = 0;
};

Count count_of(const ElementFormat& f) {
  const uint64_t codes = code_count(f);
  if (f.kind == ElementKind::power) return {codes - 1, codes - 1};
  if (f.kind == ElementKind::integer) return {codes, codes};
  const FloatGrid grid = grid_of(f);
  const uint64_t half = uint64_t{grid.max_code} + 1;
  if (!f.is_signed) return {half, half};
  return {grid.negative_zero ? 2 * half : 2 * half - 1, 2 * half - 1};
}

/// "Inf 7C, NaN 7D-7F"; negative ones have the sign bit set as well.
std::string specials_text(const ElementFormat& f) {
  const auto hex = [&](uint32_t code) { return code_text(f, code).substr(2); };
  if (f.kind == ElementKind::power) return "NaN " + hex(0xFF);
  if (f.kind == ElementKind::integer) return "none";
  const FloatGrid grid = grid_of(f);
  if (grid.nan_code == 0) return "none";
  if (grid.inf_code == 0) return "NaN " + hex(grid.nan_code);
  const uint32_t first = grid.inf_code + 1;
  std::string text = "Inf " + hex(grid.inf_code) + ", NaN " + hex(first);
  return first == grid.nan_code ? text : text + '-' + hex(grid.nan_code);
}

std::string cell(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

/// Whether any code of the least normal exponent is a number.
bool has_normals(const ElementFormat& f) { return min_normal(f) <= max_value(f); }

Table operand_table() {
  Table table({"name", "element", "block", "scale", "tensor scale", "bits per value"}, 5);
  for (const std::string_view name : cast_names()) {
    const Json o = named_operand_json(name);
    table.row({cell(o["name"]), cell(o["element"]), cell(o["block"]), cell(o["scale"]),
               cell(o["tensor_scale"]), number_text(o["bits_per_value"].get<double>())});
  }
  return table;
}

/// A largest value in a table: short, and exact where it fits.
std::string largest_text(const ElementFormat& f) {
  const std::string exact = exact_text(max_value(f));
  return exact.size() <= 11 ? exact : fmt::format("{:.6g}", max_value(f));
}

Table element_table() {
  Table table(
      {"name", "short", "special codes", "bits", "E", "M", "bias", "largest", "normal", "least"},
      3);
  for (const ElementFormat& f : element_formats()) {
    const bool integer = f.kind == ElementKind::integer;
    const bool wide = f.bits > 8;
    table.row({std::string(f.name), std::string(f.short_name), wide ? "IEEE" : specials_text(f),
               std::to_string(f.bits), integer ? "" : std::to_string(f.exponent_bits),
               std::to_string(f.mantissa_bits), integer ? "" : std::to_string(f.bias),
               largest_text(f), has_normals(f) ? factored_text(min_normal(f)) : "none",
               factored_text(min_subnormal(f))});
  }
  return table;
}

std::string what_text(const ElementFormat& f) {
  const std::string sign = f.is_signed ? "sign, " : "no sign, ";
  switch (f.kind) {
    case ElementKind::power:
      return fmt::format("powers of two: 2^(code - {}); no zero, no sign", f.bias);
    case ElementKind::integer:
      return fmt::format("{} integers{}", f.is_signed ? "two's complement" : "unsigned",
                         f.mantissa_bits > 0 ? fmt::format(" times 2^-{}", f.mantissa_bits) : "");
    default:
      return fmt::format("{}{} exponent bits E with bias {}, {} mantissa bits M", sign,
                         f.exponent_bits, f.bias, f.mantissa_bits);
  }
}

/// "2^-6 = 0.015625"
std::string both(double x) {
  const std::string factored = factored_text(x);
  const std::string exact = exact_text(x);
  return factored == exact ? exact : factored + " = " + exact;
}

std::string fact(std::string_view key, const std::string& value) {
  return fmt::format("  {:<14} {}\n", key, value);
}

}  // namespace

Json element_json(const ElementFormat& f) {
  const Count count = count_of(f);
  return {{"name", f.name},
          {"short_name", f.short_name},
          {"kind", kKinds[static_cast<size_t>(f.kind)]},
          {"signed", f.is_signed},
          {"bits", f.bits},
          {"exponent_bits", f.exponent_bits},
          {"mantissa_bits", f.mantissa_bits},
          {"bias", f.bias},
          {"specials", kSpecials[static_cast<size_t>(f.specials)]},
          {"special_codes", specials_text(f)},
          {"max", max_value(f)},
          {"max_code", max_code(f)},
          {"emax", emax(f)},
          {"min_normal", has_normals(f) ? Json(min_normal(f)) : Json()},
          {"min_subnormal", min_subnormal(f)},
          {"finite_codes", count.finite},
          {"distinct_values", count.distinct},
          {"safetensors", f.safetensors}};
}

Json operand_json(const Operand& operand) {
  return {{"element", operand.element->short_name},
          {"block", ng::text_of(operand.block)},
          {"scale", name_of(operand.scale)},
          {"tensor_scale", name_of(operand.tensor_scale)},
          {"bits_per_value", bits_per_value(operand)}};
}

Json named_operand_json(std::string_view name) {
  const Operand operand = find_cast(name).value();
  Json json = operand_json(operand);
  json["name"] = name;
  const bool ruled = !scale_rules(operand.scale).empty();
  json["scale_rule"] = ruled ? Json(name_of(operand.scale_rule)) : Json();
  return json;
}

Json all_formats_json() {
  Json json = {{"formats", Json::array()}, {"elements", Json::array()}};
  for (const std::string_view name : cast_names())
    json["formats"].push_back(named_operand_json(name));
  for (const ElementFormat& f : element_formats()) json["elements"].push_back(element_json(f));
  return json;
}

std::string all_formats_text() {
  return fmt::format(
      "Formats of recipes and casts (uint8 and uint4: of casts alone, affine): an element and its "
      "scales\n{}\n"
      "Elements: E exponent bits, M mantissa bits (integers: values are i x 2^-M)\n{}\n"
      "narrowgauge formats NAME lists every code; formats NAME --value X shows how X is rounded.\n",
      operand_table().text(), element_table().text());
}

std::string all_formats_markdown() {
  return operand_table().markdown() + '\n' + element_table().markdown();
}

std::string element_text(const ElementFormat& f) {
  const Count count = count_of(f);
  std::string text =
      fmt::format("{}: {}, {} bits: {}\n", f.short_name, f.name, f.bits, what_text(f));
  if (f.kind == ElementKind::floating) {
    const int low = 1 - f.bias;
    const std::string sign = f.is_signed ? "(-1)^S x " : "";
    text += fact("value", fmt::format("{}2^(E - {}) x 1.M; where E = 0: {}2^{} x 0.M", sign, f.bias,
                                      sign, low));
  }
  text += fact("largest", fmt::format("{} = {} ({})", exact_text(max_value(f)),
                                      code_text(f, max_code(f)), code_bits(f, max_code(f))));
  if (f.kind == ElementKind::floating)
    text += fact("least normal", has_normals(f) ? both(min_normal(f)) : "none");
  text += fact("least", both(min_subnormal(f)));
  text += fact("finite codes", fmt::format("{}, distinct values {}", count.finite, count.distinct));
  text += fact("special codes", specials_text(f));
  if (!f.safetensors.empty()) text += fact("safetensors", std::string(f.safetensors));
  return text;
}

std::string operand_text(std::string_view name) {
  const Json o = named_operand_json(name);
  std::string text = fmt::format("{}: elements {}", name, cell(o["element"]));
  if (cell(o["scale"]) == "none") return text + " without scale\n\n";
  text += fmt::format(", one {} scale for each {}", cell(o["scale"]), cell(o["block"]));
  if (cell(o["tensor_scale"]) != "none")
    text += fmt::format(", one {} scale for the tensor", cell(o["tensor_scale"]));
  text += '\n';
  if (!o["scale_rule"].is_null()) text += fact("scale rule", cell(o["scale_rule"]));
  text += fact("bits per value", number_text(o["bits_per_value"].get<double>()));
  return text + '\n';
}

}  // namespace ng::cli
