// narrowgauge cast IN OUT --format F: the tensors of a file as narrow numbers.
#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/cast_file.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/format_names.h"
#include "recipe/operand_keys.h"

namespace ng::cli {
namespace {

struct Args {
  std::string in, out, format;
  std::string overflow = "saturate";
  std::string rounding, scale_rule, block, scale, tensor_scale;
  int64_t sr_bits = 0;
  CastSettings settings;
};

// "RxC" as TOML; other words as strings.
std::string block_toml(const std::string& block) {
  const size_t x = block.find('x');
  const auto digits = [](std::string_view s) {
    return !s.empty() && s.size() < 10 && s.find_first_not_of("0123456789") == s.npos;
  };
  if (x == std::string::npos || !digits(block.substr(0, x)) || !digits(block.substr(x + 1)))
    return toml_quote(block);
  return fmt::format("[{}, {}]", std::stoi(block.substr(0, x)), std::stoi(block.substr(x + 1)));
}

// The flags as an operand of a recipe, so that they are read and checked like one.
std::string operand_toml(const Args& args) {
  std::string text =
      is_operand_name(args.format)
          ? "format = " + toml_quote(args.format)
          : "format = \"fp32\", element = " + toml_quote(known_element(args.format).short_name);
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format(", {} = {}", key, value);
  };
  const auto quoted = [](const std::string& word) { return word.empty() ? "" : toml_quote(word); };
  add("block", args.block.empty() ? "" : block_toml(args.block));
  add("scale", quoted(args.scale));
  add("tensor_scale", quoted(args.tensor_scale));
  add("scale_rule", quoted(args.scale_rule));
  add("rounding", quoted(args.rounding));
  add("sr_bits", args.sr_bits == 0 ? "" : std::to_string(args.sr_bits));
  add("overflow", quoted(args.overflow));
  return "operand = { " + text + " }";
}

// An element that no GEMM takes is rounded by the format table alone.
Operand plain_element(const Args& args) {
  Operand operand;
  operand.element = &known_element(args.format);
  if (!args.block.empty() || !args.scale.empty() || !args.tensor_scale.empty() ||
      !args.scale_rule.empty())
    throw Error({.place = "--format",
                 .key = args.format,
                 .problem = "takes no scale",
                 .remedy = "an element of a GEMM operand, or no scale flags"});
  if (args.rounding == "stochastic") operand.rounding = Rounding::stochastic;
  if (args.overflow == "special") operand.overflow = Overflow::special;
  if (args.sr_bits != 0) operand.sr_bits = static_cast<int>(args.sr_bits);
  return operand;
}

Operand operand_of_flags(const Args& args) {
  const bool scaled = !args.scale.empty();
  if (!is_operand_name(args.format) && !scaled) return plain_element(args);
  const toml::table document = parse_toml(operand_toml(args), "cast");
  Operand operand;
  try {
    read_operand(operand, *find_item(document, "operand", ""));
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    std::string flag = parts.key.substr(parts.key.find('.') + 1);
    std::replace(flag.begin(), flag.end(), '_', '-');
    parts.place = "cast";
    parts.key = flag == "operand" ? "--format" : "--" + flag;
    throw Error(parts);
  }
  return operand;
}

int cast(const Args& args) {
  CastSettings settings = args.settings;
  settings.cast = operand_of_flags(args);
  if (settings.cast.element->bits > 16)
    throw Error({.place = "--format",
                 .key = args.format,
                 .problem = "has nothing to round to",
                 .remedy = "a format of at most 16 bits; narrowgauge formats lists them"});
  cast_file(args.in, args.out, settings);
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  app.add_option("IN", a.in, "safetensors file to read")->required();
  app.add_option("OUT", a.out, "safetensors file to write")->required();
  app.add_option("--format", a.format, "a format: narrowgauge formats lists them")
      ->required()
      ->type_name("NAME");
  app.add_option("--rounding", a.rounding, "nearest or stochastic")
      ->check(CLI::IsMember({"nearest", "stochastic"}));
  app.add_option("--overflow", a.overflow, "saturate, or special: infinities and NaN")
      ->capture_default_str()
      ->check(CLI::IsMember({"saturate", "special"}));
  app.add_option("--scale-rule", a.scale_rule,
                 "E8M0: floor, rceil, ceil, even, mse; NVFP4: nearest, up");
  app.add_option("--block", a.block, "values that share a scale: RxC, tensor or row");
  app.add_option("--scale", a.scale, "none, fp32, pow2, e8m0 or e4m3");
  app.add_option("--tensor-scale", a.tensor_scale, "second level: none, fp32 or pow2");
  app.add_option("--axis", a.settings.axis, "along which blocks lie; -1: the last")
      ->capture_default_str();
  add_seed(app, a.settings.seed, "of stochastic rounding");
  app.add_option("--sr-bits", a.sr_bits, "random bits per value")
      ->check(CLI::IsMember({8, 16, 32}));
  app.add_option("--tensor", a.settings.tensors, "only tensors whose names match")
      ->type_name("GLOB");
  app.footer(
      "Every float tensor X becomes X.codes (U8 or U16), X.scale (codes in U8, or F32: what codes\n"
      "are multiplied by), X.tensor_scale (F32, NVFP4) and X.values (F32).");
  return [args] { return cast(*args); };
}

}  // namespace

extern const Command kCast;
const Command kCast{"cast", "round the tensors of a file to a format", declare};

}  // namespace ng::cli
