// narrowgauge formats [NAME]: the table of formats.
#include <cmath>

#include "base/error.h"
#include "cli/command.h"
#include "cli/format_names.h"
#include "cli/output.h"
#include "format/codec.h"

namespace ng::cli {
namespace {

struct Args {
  std::string name;
  bool codes = false;
  bool json = false;
};

constexpr std::string_view kKinds[] = {"floating", "power", "integer"};
constexpr std::string_view kSpecials[] = {"ieee", "fn", "fnuz", "none"};

Json element_json(const ElementFormat& f) {
  return {{"name", f.name},
          {"short_name", f.short_name},
          {"kind", kKinds[static_cast<size_t>(f.kind)]},
          {"signed", f.is_signed},
          {"bits", f.bits},
          {"exponent_bits", f.exponent_bits},
          {"mantissa_bits", f.mantissa_bits},
          {"bias", f.bias},
          {"specials", kSpecials[static_cast<size_t>(f.specials)]},
          {"max", max_value(f)},
          {"min_normal", min_normal(f)},
          {"min_subnormal", min_subnormal(f)}};
}

Json operand_json(std::string_view name) {
  const Operand operand = operand_of(name);
  return {{"name", name},
          {"element", operand.element->short_name},
          {"block", text_of(operand.block)},
          {"scale", name_of(operand.scale)},
          {"tensor_scale", name_of(operand.tensor_scale)},
          {"bits_per_value", bits_per_value(operand)}};
}

// NaN and infinities are no JSON numbers.
Json code_value(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

uint64_t require_listable(const ElementFormat& f) {
  if (f.bits <= 16) return code_count(f);
  throw Error({.place = "--codes",
               .key = std::string(f.short_name),
               .problem = fmt::format("{} bits", f.bits),
               .remedy = "a format of at most 16 bits"});
}

Json codes_json(const ElementFormat& f) {
  Json codes = Json::array();
  for (uint64_t code = 0; code < require_listable(f); ++code)
    codes.push_back(code_value(decode(f, static_cast<uint32_t>(code))));
  return codes;
}

std::string cell(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_facts(const Json& facts) {
  for (const auto& [key, value] : facts.items()) print("{:<14} {}\n", key, cell(value));
}

void print_codes(const ElementFormat& f) {
  Table table({"code", "bits", "value"}, 0);
  for (uint64_t code = 0; code < require_listable(f); ++code)
    table.row({fmt::format("0x{:02X}", code), fmt::format("{:0{}b}", code, f.bits),
               fmt::format("{}", decode(f, static_cast<uint32_t>(code)))});
  print("\n{}", table.text());
}

std::string short_number(const Json& value) { return fmt::format("{:.6g}", value.get<double>()); }

void print_all() {
  print("Formats of recipes and casts: an element and its scales\n");
  Table operands({"name", "element", "block", "scale", "tensor scale", "bits per value"}, 5);
  for (const std::string_view name : operand_names()) {
    const Json o = operand_json(name);
    operands.row({cell(o["name"]), cell(o["element"]), cell(o["block"]), cell(o["scale"]),
                  cell(o["tensor_scale"]), short_number(o["bits_per_value"])});
  }
  print("{}\nElements\n", operands.text());
  Table elements({"name", "short", "kind", "bits", "exponent", "mantissa", "bias", "largest",
                  "least normal", "least"},
                 3);
  for (const ElementFormat& f : element_formats()) {
    const Json e = element_json(f);
    elements.row({cell(e["name"]), cell(e["short_name"]), cell(e["kind"]), cell(e["bits"]),
                  cell(e["exponent_bits"]), cell(e["mantissa_bits"]), cell(e["bias"]),
                  short_number(e["max"]), short_number(e["min_normal"]),
                  short_number(e["min_subnormal"])});
  }
  print("{}", elements.text());
}

Json all_json() {
  Json json = {{"formats", Json::array()}, {"elements", Json::array()}};
  for (const std::string_view name : operand_names()) json["formats"].push_back(operand_json(name));
  for (const ElementFormat& f : element_formats()) json["elements"].push_back(element_json(f));
  return json;
}

int formats(const Args& args) {
  if (args.name.empty()) {
    if (args.json)
      print_json(all_json());
    else
      print_all();
    return 0;
  }
  const bool operand = is_operand_name(args.name);
  const ElementFormat& element =
      operand ? *operand_of(args.name).element : known_element(args.name);
  Json facts = operand ? operand_json(args.name) : element_json(element);
  if (args.json) {
    if (operand) facts["element_format"] = element_json(element);
    if (args.codes) facts["codes"] = codes_json(element);
    print_json(facts);
    return 0;
  }
  print_facts(facts);
  if (operand) {
    print("\n");
    print_facts(element_json(element));
  }
  if (args.codes) print_codes(element);
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("NAME", args->name, "one format: mxfp4, fp8_e4m3, e2m1, float8_e5m2, ...");
  app.add_flag("--codes", args->codes, "the value of every code (needs NAME)");
  app.add_flag("--json", args->json, "print one JSON object");
  app.callback([args] {
    if (args->codes && args->name.empty()) throw CLI::RequiredError("NAME with --codes");
  });
  return [args] { return formats(*args); };
}

}  // namespace

extern const Command kFormats;
const Command kFormats{"formats", "the number formats; one format's facts and codes", declare};

}  // namespace ng::cli
