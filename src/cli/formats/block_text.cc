// The steps of a block as text and as JSON.
#include <cmath>

#include "base/json.h"
#include "cli/formats/bits.h"
#include "cli/formats/block.h"
#include "cli/output.h"
#include "format/codec.h"

namespace ng::cli {
namespace {

/// What was lost over the finite values. [formats.md §8]
struct Loss {
  double squares = 0;  ///< Σ x²
  double errors = 0;   ///< Σ (x' - x)²
  double largest = 0;
  size_t saturated = 0, flushed = 0;
  bool finite = true;

  [[nodiscard]] double sqnr() const {
    if (squares == 0) return NAN;
    return errors == 0 ? HUGE_VAL : 10 * std::log10(squares / errors);
  }
};

Loss loss_of(const BlockWay& way) {
  Loss loss;
  for (const BlockElement& e : way.elements) {
    const double error = static_cast<double>(e.value) - static_cast<double>(e.x);
    loss.finite = loss.finite && std::isfinite(error);
    loss.squares += static_cast<double>(e.x) * static_cast<double>(e.x);
    loss.errors += error * error;
    loss.largest = std::max(loss.largest, std::fabs(error));
    loss.flushed += e.x != 0 && e.value == 0 ? 1 : 0;
    loss.saturated += std::fabs(e.y) > max_value(*way.element) ? 1 : 0;
  }
  return loss;
}

std::string hex(uint8_t byte) { return fmt::format("{:02X}", byte); }

/// Sixteen bytes a line; a run of zeros at the end is counted.
std::string bytes_text(const std::vector<uint8_t>& bytes) {
  size_t shown = bytes.size();
  while (shown > 0 && bytes[shown - 1] == 0) --shown;
  if (bytes.size() - shown < 4) shown = bytes.size();
  std::string text;
  for (size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "" : i % 24 == 0 ? "\n           " : " ") + hex(bytes[i]);
  if (shown == bytes.size()) return text;
  return text + fmt::format("{}{} x 00", shown == 0 ? "" : ", then ", bytes.size() - shown);
}

std::string elements_text(const BlockWay& way) {
  Table table({"  x", way.y_formula, "code", "bits", "of the code", "value", "value - x"}, 0);
  for (const BlockElement& e : way.elements) {
    const double error = static_cast<double>(e.value) - static_cast<double>(e.x);
    table.row({fmt::format("  {}", e.x), fmt::format("{}", e.y), code_text(*way.element, e.code),
               code_bits(*way.element, e.code), exact_text(decode(*way.element, e.code)),
               std::isnan(e.value) ? "NaN" : fmt::format("{}", e.value),
               std::isfinite(error) ? fmt::format("{:.6g}", error) : ""});
  }
  return table.text();
}

std::string loss_text(const BlockWay& way) {
  const Loss loss = loss_of(way);
  if (!loss.finite) return "   error    not finite\n";
  return fmt::format(
      "   error    SQNR {}, largest {:.6g}; {} of {} beyond the largest element, {} became 0\n",
      std::isfinite(loss.sqnr())
          ? fmt::format("{:.2f} dB", loss.sqnr())
          : (loss.errors == 0 && loss.squares > 0 ? "infinite" : "undefined"),
      loss.largest, loss.saturated, way.elements.size(), loss.flushed);
}

std::string scale_title(const BlockSteps& s, const BlockWay& way) {
  if (s.operand.scale != ScaleKind::e8m0) return "";
  const auto code = way.scale["code"].get<uint32_t>();
  if (!way.scale.contains("exponent")) return ": scale NaN, code 0xFF";
  return fmt::format(": scale 2^{}, code 0x{:02X}", way.scale["exponent"].get<int>(), code);
}

}  // namespace

std::string text_of(const BlockSteps& s) {
  std::string text = fmt::format(
      "{} value{} of {}: elements {}, one {} scale for each {}\n", s.ways.front().elements.size(),
      s.ways.front().elements.size() == 1 ? "" : "s", s.name, s.operand.element->short_name,
      name_of(s.operand.scale), ng::text_of(s.operand.block));
  if (s.padding > 0) text += fmt::format("  {} zeros fill the block\n", s.padding);
  for (const std::string& line : s.steps) text += "  " + line + '\n';
  for (const BlockWay& way : s.ways) {
    text += fmt::format("\n{}{}\n", fmt::join(way.rules, ", "), scale_title(s, way));
    for (const std::string& line : way.steps) text += "  " + line + '\n';
    text += elements_text(way);
    text += "   bytes    " + bytes_text(packed_bytes_of(s, way)) + '\n' + loss_text(way);
  }
  return text;
}

Json json_of(const BlockSteps& s) {
  Json json = {{"name", s.name},
               {"element", s.operand.element->short_name},
               {"padding", s.padding},
               {"tensor_amax", json_number(s.amax)},
               {"ways", Json::array()}};
  for (const BlockWay& way : s.ways) {
    const Loss loss = loss_of(way);
    Json j = {{"rules", way.rules},
              {"element", way.element->short_name},
              {"scale", way.scale},
              {"sqnr_db", json_number(loss.finite ? loss.sqnr() : NAN)},
              {"max_error", json_number(loss.largest)},
              {"saturated", loss.saturated},
              {"flushed", loss.flushed},
              {"x", Json::array()},
              {"y", Json::array()},
              {"codes", Json::array()},
              {"values", Json::array()},
              {"bytes", Json::array()}};
    for (const BlockElement& e : way.elements) {
      j["x"].push_back(json_number(e.x));
      j["y"].push_back(json_number(e.y));
      j["codes"].push_back(e.code);
      j["values"].push_back(json_number(e.value));
    }
    for (const uint8_t byte : packed_bytes_of(s, way)) j["bytes"].push_back(byte);
    json["ways"].push_back(std::move(j));
  }
  return json;
}

}  // namespace ng::cli
