// Every code of a format with its value, its neighbours and what it is.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "cli/formats/bits.h"
#include "cli/formats/table.h"
#include "cli/output.h"
#include "format/codec.h"

namespace ng::cli {
namespace {

void require_listable(const ElementFormat& f) {
  if (f.bits <= 16) return;
  throw Error({.place = "--codes",
               .key = std::string(f.short_name),
               .problem = fmt::format("{} bits", f.bits),
               .remedy = "a format of at most 16 bits"});
}

std::vector<float> sorted_values(const std::vector<float>& values) {
  std::vector<float> sorted;
  for (const float v : values)
    if (std::isfinite(v)) sorted.push_back(v == 0 ? 0.0f : v);
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

std::string class_of(const ElementFormat& f, uint32_t code, float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return "infinity";
  if (value == 0) return "zero";
  const float magnitude = std::fabs(value);
  if (magnitude > max_value(f)) return "not emitted";
  if (magnitude == max_value(f)) return "largest";
  if (f.kind == ElementKind::integer) return "integer";
  if (f.kind == ElementKind::power) return code == 0 ? "least" : "power";
  return magnitude < min_normal(f) ? "subnormal" : "normal";
}

/// One code; lower and upper are NaN where there is no such value.
struct CodeFacts {
  uint32_t code = 0;
  float value = 0;
  float lower = NAN;
  float upper = NAN;
  std::string what;
};

std::vector<CodeFacts> facts_of(const ElementFormat& f) {
  require_listable(f);
  const std::vector<float> values = decode_table(f);
  const std::vector<float> sorted = sorted_values(values);
  std::vector<CodeFacts> facts;
  for (uint32_t code = 0; code < values.size(); ++code) {
    CodeFacts c{.code = code, .value = values[code], .what = class_of(f, code, values[code])};
    if (std::isfinite(c.value)) {
      const auto at = std::lower_bound(sorted.begin(), sorted.end(), c.value);
      if (at != sorted.begin()) c.lower = *(at - 1);
      if (at + 1 != sorted.end()) c.upper = *(at + 1);
    }
    facts.push_back(std::move(c));
  }
  return facts;
}

double spacing(const CodeFacts& c) {
  return static_cast<double>(c.upper) - static_cast<double>(c.value);
}

std::string cell(double x) { return std::isnan(x) ? "" : exact_text(x); }

Json json_of(const ElementFormat& f, const CodeFacts& c) {
  const auto known = [](double x) { return std::isnan(x) ? Json() : Json(x); };
  return {
      {"code", c.code},          {"bits", code_bits(f, c.code)}, {"value", json_number(c.value)},
      {"lower", known(c.lower)}, {"upper", known(c.upper)},      {"spacing", known(spacing(c))},
      {"class", c.what}};
}

/// The code with the other sign; empty where there is none.
std::string negative_text(const ElementFormat& f, uint32_t code) {
  if (f.kind == ElementKind::integer)
    return code == 0 ? "" : code_text(f, static_cast<uint32_t>(code_count(f)) - code);
  const FloatGrid grid = grid_of(f);
  return code == 0 && !grid.negative_zero ? "" : code_text(f, code | grid.sign_mask);
}

}  // namespace

std::string codes_text(const ElementFormat& f) {
  const std::vector<CodeFacts> facts = facts_of(f);
  if (!f.is_signed) {
    Table table({"code", "bits", "value", "below", "above", "spacing", "what"}, 2);
    for (const CodeFacts& c : facts)
      table.row({code_text(f, c.code), code_bits(f, c.code), exact_text(c.value), cell(c.lower),
                 cell(c.upper), cell(spacing(c)), c.what});
    return table.text();
  }
  Table table({"code", "negative", "bits", "value", "below", "above", "spacing", "what"}, 3);
  const size_t half = facts.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const CodeFacts& c = facts[i];
    table.row({code_text(f, c.code), negative_text(f, c.code), code_bits(f, c.code),
               exact_text(c.value), cell(c.lower), cell(c.upper), cell(spacing(c)), c.what});
  }
  // What no positive code pairs with: the NaN of formats without -0, the least integer.
  const CodeFacts& odd = facts[half];
  if (f.kind == ElementKind::integer || !grid_of(f).negative_zero)
    table.row({"", code_text(f, odd.code), code_bits(f, odd.code), exact_text(odd.value),
               cell(odd.lower), cell(odd.upper), cell(spacing(odd)), odd.what});
  return table.text();
}

void add_codes(const ElementFormat& f, Json& json) {
  json["codes"] = Json::array();
  json["code_facts"] = Json::array();
  for (const CodeFacts& c : facts_of(f)) {
    json["codes"].push_back(json_number(c.value));
    json["code_facts"].push_back(json_of(f, c));
  }
}

}  // namespace ng::cli
