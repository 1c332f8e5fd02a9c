// Every code of a format with its value, its neighbours and what it is.
#include <algorithm>
#include <cmath>
#include <utility>

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

/// One code; lower and upper are null where there is no such value.
Json code_row(const ElementFormat& f, uint32_t code, float value,
              const std::vector<float>& sorted) {
  Json row = {{"code", code},
              {"bits", code_bits(f, code)},
              {"value", json_number(value)},
              {"lower", nullptr},
              {"upper", nullptr},
              {"spacing", nullptr},
              {"class", class_of(f, code, value)}};
  if (!std::isfinite(value)) return row;
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (at != sorted.begin()) row["lower"] = *(at - 1);
  if (at + 1 == sorted.end()) return row;
  row["upper"] = *(at + 1);
  row["spacing"] = static_cast<double>(*(at + 1)) - static_cast<double>(value);
  return row;
}

Json code_rows(const ElementFormat& f) {
  require_listable(f);
  const std::vector<float> values = decode_table(f);
  const std::vector<float> sorted = sorted_values(values);
  Json rows = Json::array();
  for (uint32_t code = 0; code < values.size(); ++code)
    rows.push_back(code_row(f, code, values[code], sorted));
  return rows;
}

std::string exact_cell(const Json& number) { return exact_text(number_of(number)); }

/// The code with the other sign; empty where there is none.
std::string negative_text(const ElementFormat& f, uint32_t code) {
  if (f.kind == ElementKind::integer)
    return code == 0 ? "" : code_text(f, static_cast<uint32_t>(code_count(f)) - code);
  const FloatGrid grid = grid_of(f);
  return code == 0 && !grid.negative_zero ? "" : code_text(f, code | grid.sign_mask);
}

}  // namespace

std::string codes_text(const ElementFormat& f) {
  std::vector<Column> columns = {{"code", "code"},
                                 {"negative", "negative"},
                                 {"bits", "bits"},
                                 {.heading = "value", .key = "value", .text = exact_cell},
                                 {.heading = "below", .key = "lower", .text = exact_cell},
                                 {.heading = "above", .key = "upper", .text = exact_cell},
                                 {.heading = "spacing", .key = "spacing", .text = exact_cell},
                                 {"what", "class"}};
  Json rows = code_rows(f);
  for (Json& row : rows) row["code"] = code_text(f, row["code"].get<uint32_t>());
  if (!f.is_signed) {
    columns.erase(columns.begin() + 1);
    return table_of(rows, columns, 2);
  }
  const size_t half = rows.size() / 2;
  for (size_t code = 0; code < half; ++code)
    rows[code]["negative"] = negative_text(f, static_cast<uint32_t>(code));
  // What no positive code pairs with: the NaN of formats without -0, the least integer.
  const bool has_odd = f.kind == ElementKind::integer || !grid_of(f).negative_zero;
  rows[half]["negative"] = std::exchange(rows[half]["code"], "");
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(half + (has_odd ? 1 : 0)), rows.end());
  return table_of(rows, columns, 3);
}

void add_codes(const ElementFormat& f, Json& json) {
  json["codes"] = Json::array();
  json["code_facts"] = code_rows(f);
  for (const Json& row : json["code_facts"]) json["codes"].push_back(row["value"]);
}

}  // namespace ng::cli
