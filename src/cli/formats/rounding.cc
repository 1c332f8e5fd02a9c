#include "cli/formats/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/json.h"
#include "cli/formats/bits.h"
#include "cli/output.h"

namespace ng::cli {
namespace {

/// The bits of a code where they fit a table; those of FP32 are in step 1.
std::string bits_cell(const ElementFormat& f, uint32_t code) {
  return f.bits <= 16 ? code_bits(f, code) : "";
}

std::string code_line(const ElementFormat& f, uint32_t code) {
  return fmt::format("{}  {}  {}", code_text(f, code), code_bits(f, code),
                     exact_text(decode(f, code)));
}

std::string input_text(const std::string& typed, const RoundingSteps& s) {
  const uint32_t u = float_bits(s.x);
  std::string text = fmt::format("1. {} in FP32: the nearest number it has\n", typed);
  text += fmt::format("   0x{:08X} = {}   sign, exponent, mantissa\n", u, float_bits_text(s.x));
  if (std::isnan(s.x)) return text + "   = not a number\n";
  if (std::isinf(s.x) || s.x == 0) return text + fmt::format("   = {}\n", number_text(s.x));
  const float magnitude = std::fabs(s.x);
  return text + fmt::format("   = {}1.{:023b} x 2^{} = {}\n", s.x < 0 ? "-" : "",
                            significand_of(magnitude) & 0x7FFFFFu, floor_log2(magnitude),
                            number_text(s.x));
}

/// "2^-4 = 0.0625"
std::string spacing_text(int q) {
  const std::string power = fmt::format("2^{}", q), exact = exact_text(std::ldexp(1.0, q));
  return power == exact ? power : power + " = " + exact;
}

std::string grid_text(const RoundingSteps& s) {
  const ElementFormat& f = *s.format;
  std::string text;
  if (f.kind == ElementKind::integer) {
    text = fmt::format("2. The grid of {}: values are {} apart everywhere\n   q = {}\n",
                       f.short_name, spacing_text(s.q), s.q);
  } else {
    text = fmt::format("2. The grid of {} around it: bias {}, {} mantissa bits\n", f.short_name,
                       f.bias, f.mantissa_bits);
    text += fmt::format("   e = max(floor(log2 |x|), 1 - {}) = max({}, {}) = {}{}\n", f.bias,
                        floor_log2(std::fabs(s.x)), 1 - f.bias, s.e,
                        floor_log2(std::fabs(s.x)) < 1 - f.bias ? ": subnormal" : "");
    text += fmt::format("   q = e - {} = {}: values here are {} apart\n", f.mantissa_bits, s.q,
                        spacing_text(s.q));
  }
  const char* half = s.f == 0    ? "nothing to round"
                     : s.f < 0.5 ? "below one half"
                     : s.f > 0.5 ? "above one half"
                                 : "one half: a tie";
  text += fmt::format("   t = |x| / 2^q = {} in binary = n + f\n",
                      s.shift > -32 ? binary_text(s.significand, s.shift) : number_text(s.t));
  return text + fmt::format("   n = {}, f = {}, {}\n", number_text(s.n), number_text(s.f), half);
}

/// One neighbour: its code, or that there is none.
std::vector<std::string> neighbour_row(const RoundingSteps& s, double value, const char* formula) {
  const ElementFormat& f = *s.format;
  std::string code, bits, what = exact_text(value);
  if (std::fabs(value) > static_cast<double>(max_value(f))) {
    what += fmt::format(", beyond the largest, {}", exact_text(max_value(f)));
  } else {
    const float signed_zero = value == 0 && s.x < 0 ? -0.0f : static_cast<float>(value);
    const uint32_t c = encode(f, signed_zero);
    code = code_text(f, c);
    bits = code_bits(f, c);
  }
  return {formula, code, bits, what};
}

std::string neighbours_text(const RoundingSteps& s) {
  Table table({"  neighbour", "code", "bits", "value"}, 4);
  table.row(neighbour_row(s, s.below, "  n x 2^q"));
  table.row(neighbour_row(s, s.above, "  (n+1) x 2^q"));
  return "3. Its neighbours\n" + table.text();
}

bool policies_differ(const RoundingSteps& s) {
  return std::any_of(s.modes.begin(), s.modes.end(),
                     [](const RoundedBy& m) { return m.saturate != m.special; });
}

std::string modes_text(const RoundingSteps& s) {
  const ElementFormat& f = *s.format;
  const bool two = policies_differ(s);
  Table table({"  rounding", "goes up where", "here", "code", "bits", "value", "value - x"}, 5);
  for (const RoundedBy& m : s.modes) {
    const float value = decode(f, m.saturate);
    const double error = static_cast<double>(value) - static_cast<double>(s.x);
    table.row({"  " + std::string(m.mode), std::string(m.rule),
               !s.on_grid ? ""
               : m.up     ? "up"
                          : "down",
               code_text(f, m.saturate), bits_cell(f, m.saturate), exact_text(value),
               std::isfinite(error) ? fmt::format("{:.4g}", error) : ""});
  }
  std::string text = two ? "4. Rounded; overflow saturates\n" : "4. Rounded\n";
  text += table.text();
  if (!two) return text;
  text += "   with overflow special\n";
  for (const RoundedBy& m : s.modes)
    text += fmt::format("    {:<13} {}\n", m.mode, code_line(f, m.special));
  return text;
}

Json odds_json(const StochasticOdds& d) {
  return {{"bits", d.bits},
          {"F", d.ups},
          {"probability", static_cast<double>(d.ups) / std::ldexp(1.0, d.bits)},
          {"expectation", d.expectation}};
}

std::string stochastic_text(const RoundingSteps& s) {
  std::string text =
      s.floors
          ? "5. Stochastic: floor(x + R / 2^r); with F the first r bits of x - floor(x), up where "
            "F + R >= 2^r\n"
          : "5. Stochastic, R uniform in 0 ... 2^r - 1: up where F + R >= 2^r, F = floor(f x "
            "2^r)\n";
  constexpr Column kColumns[] = {{"  r", "bits", "  {}"},
                                 {"F", "F"},
                                 {"up for R =", "ups"},
                                 {"P(up) = F / 2^r", "probability", "{:.9g}"},
                                 {"expectation", "expectation", "{:.9g}"},
                                 {"expectation - x", "error", "{:.3g}"}};
  Json rows = Json::array();
  for (const StochasticOdds& d : s.stochastic) {
    Json& row = rows.emplace_back(odds_json(d));
    const uint64_t draws = uint64_t{1} << d.bits;  // a draw is uniform over 0 ... draws - 1
    row["ups"] = d.ups == 0 ? "none" : fmt::format("{} ... {}", draws - d.ups, draws - 1);
    row["error"] = d.expectation - static_cast<double>(s.x);
  }
  text += table_of(rows, kColumns);
  const double beyond = std::fabs(s.above);
  if (s.f > 0 && beyond > static_cast<double>(max_value(*s.format)))
    text += "   There is no value above to round to: the result saturates and is biased.\n";
  return text;
}

bool shows_bf16(const RoundingSteps& s) { return s.format->bits <= 8 && s.on_grid; }

std::string bf16_text(const std::string& typed, const RoundingSteps& s) {
  const ElementFormat& f = *s.format;
  const uint32_t direct = s.modes.front().saturate;
  std::string text = fmt::format("6. Through BF16 first: {} is {} there,\n   ", typed,
                                 number_text(s.through_bf16));
  if (s.code_through_bf16 == direct) return text + "which rounds to the same code.\n";
  return text + fmt::format("which rounds to {}, not to {}: two roundings are not one.\n",
                            exact_text(decode(f, s.code_through_bf16)),
                            exact_text(decode(f, direct)));
}

/// What is no number with neighbours: zero, infinities, NaN, a sign the format lacks.
std::string special_text(const RoundingSteps& s) {
  const ElementFormat& f = *s.format;
  const RoundedBy& any = s.modes.front();
  const char* why = "zero keeps its sign where the format has a -0";
  if (std::isnan(s.x))
    why = std::isnan(decode(f, any.special)) ? "the format has a NaN"
                                             : "the format has no NaN: its largest value, counted";
  else if (std::isinf(s.x))
    why = "the overflow policy decides";
  else if (f.kind == ElementKind::power)
    why = "no positive number above the least power";
  else if (s.x != 0)
    why = "the format has no sign";
  std::string text = fmt::format("2. No grid around it: {}\n", why);
  if (!policies_differ(s)) return text + "   " + code_line(f, any.saturate) + '\n';
  return text + fmt::format("   overflow saturate  {}\n   overflow special   {}\n",
                            code_line(f, any.saturate), code_line(f, any.special));
}

}  // namespace

float parse_value(const std::string& typed) {
  char* end = nullptr;
  const float x = std::strtof(typed.c_str(), &end);
  if (typed.empty() || *end != '\0' || std::isspace(static_cast<unsigned char>(typed[0])) != 0)
    refuse("--value", fmt::format("\"{}\" is no number", typed),
           "decimal (0.78, 1e-5), hexadecimal (0x1.8p-3), inf or nan");
  const bool says_infinity = typed.find_first_of("iI") != std::string::npos;
  if (std::isinf(x) && !says_infinity)
    refuse("--value", fmt::format("\"{}\" lies beyond FP32", typed), "at most 3.4028235e38");
  return x;
}

std::string text_of(const std::string& typed, const RoundingSteps& s) {
  std::string text = fmt::format("{} of {}\n", typed, s.format->name) + input_text(typed, s);
  if (!s.on_grid) return text + special_text(s);
  text += grid_text(s) + neighbours_text(s) + modes_text(s) + stochastic_text(s);
  return shows_bf16(s) ? text + bf16_text(typed, s) : text;
}

Json json_of(const std::string& typed, const RoundingSteps& s) {
  const ElementFormat& f = *s.format;
  const auto code_json = [&](uint32_t code) -> Json {
    return {{"code", code}, {"bits", code_bits(f, code)}, {"value", json_number(decode(f, code))}};
  };
  Json json = {
      {"typed", typed},
      {"fp32",
       {{"value", json_number(s.x)}, {"bits", float_bits(s.x)}, {"fields", float_bits_text(s.x)}}},
      {"modes", Json::object()}};
  for (const RoundedBy& m : s.modes)
    json["modes"][std::string(m.mode)] = {{"up", s.on_grid ? Json(m.up) : Json()},
                                          {"saturate", code_json(m.saturate)},
                                          {"special", code_json(m.special)}};
  if (!s.on_grid) return json;
  json["grid"] = {{"e", s.e}, {"q", s.q},         {"t", s.t},        {"n", s.n},
                  {"f", s.f}, {"below", s.below}, {"above", s.above}};
  if (s.shift > -32) json["grid"]["t_binary"] = binary_text(s.significand, s.shift);
  json["stochastic"] = Json::array();
  for (const StochasticOdds& d : s.stochastic) json["stochastic"].push_back(odds_json(d));
  if (shows_bf16(s))
    json["through_bf16"] = {{"value", s.through_bf16},
                            {"result", code_json(s.code_through_bf16)},
                            {"changes", s.code_through_bf16 != s.modes.front().saturate}};
  return json;
}

}  // namespace ng::cli
