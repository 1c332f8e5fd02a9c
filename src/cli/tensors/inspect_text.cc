#include "cli/tensors/inspect.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/tensors/tensor_text.h"
#include "tools/inspection.h"

namespace ng::cli {
namespace {

constexpr int kMostBinades = 20;
constexpr double kBarColumns = 40;

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Full blocks and an eighth part of one.
std::string bar(double columns) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string text;
  const auto eighths = static_cast<int>(std::lround(columns * 8));
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

char letter(size_t i) { return static_cast<char>(i < 26 ? 'a' + i : 'A' + (i - 26) % 26); }

std::string facts_text(const io::SafetensorsEntry& entry, const TensorFacts& facts) {
  std::string text =
      fmt::format("{}  {} {}  {} values\n", on_one_line(entry.name), entry.dtype,
                  shape_text(entry.shape), count_text(static_cast<int64_t>(facts.values)));
  text += fmt::format("  min {:.4g}  max {:.4g}  amax {:.4g}  mean {:.4g}  rms {:.4g}\n", facts.min,
                      facts.max, facts.amax(), facts.mean(), facts.rms());
  text += fmt::format(
      "  zeros {}  NaN {}  infinite {}\n", percent_text(share(facts.zeros, facts.values)),
      count_text(static_cast<int64_t>(facts.nan)), count_text(static_cast<int64_t>(facts.inf)));
  return text;
}

// Binades from the largest value down; the lowest line gathers the rest.
std::string histogram_text(const TensorFacts& facts, const std::vector<FormatTrial>& trials) {
  const uint64_t nonzero = facts.finite() - facts.zeros;
  if (nonzero == 0) return "";
  constexpr int kLowest = Binades::kLowest;
  int top = 127, bottom = kLowest;
  while (facts.binades.at(top) == 0) --top;
  while (facts.binades.at(bottom) == 0) ++bottom;
  const int last = std::max(bottom, top - kMostBinades + 1);
  uint64_t most = 0, below = 0;
  for (int e = last; e <= top; ++e) most = std::max(most, facts.binades.at(e));
  for (int e = bottom; e < last; ++e) below += facts.binades.at(e);
  std::string letters;
  for (size_t i = 0; i < trials.size(); ++i) letters += std::string(" ") + letter(i);
  std::string text = fmt::format("  {:>7} {:>8}  {:<40} {}\n", "|x| from", "share", "", letters);
  for (int e = top; e >= last; --e) {
    const uint64_t count = facts.binades.at(e);
    const double columns = kBarColumns * share(count, most);
    const std::string drawn = bar(columns);
    const auto width = static_cast<int>(std::ceil(std::lround(columns * 8) / 8.0));
    std::string states;
    for (const FormatTrial& trial : trials) states += std::string(" ") + binade_state(trial, e);
    text += fmt::format("  {:>8} {:>8}  {}{} {}\n", fmt::format("2^{}", e),
                        percent_text(share(count, nonzero)), drawn,
                        std::string(static_cast<size_t>(40 - width), ' '), states);
  }
  if (below > 0)
    text += fmt::format("  {:>8} {:>8}\n", "less", percent_text(share(below, nonzero)));
  return text +
         "  N normal in every block, n in some, s subnormal, 0 becomes zero, ^ saturates,\n"
         "  ? every block is NaN\n";
}

// A row of JSON with what the letter and the names of scale and rule add for people.
Json trial_row(const FormatTrial& trial, std::string_view letter, std::string_view remark) {
  const Operand& cast = trial.cast;
  Json row = trial_json(trial);
  row["letter"] = letter;
  row["scale"] = cast.is_unscaled()
                     ? "none"
                     : fmt::format("{} {}", name_of(cast.scale), ng::text_of(cast.block));
  row["rule"] = trial.rule + std::string(remark);
  return row;
}

std::string error_cell(const Json& error) {
  const double largest = number_of(error);
  return std::isnan(largest) ? "NaN" : fmt::format("{:.3g}", largest);
}

// Each format by its own rule, and by the best of all where that is another.
std::string table_text(const std::vector<RuleTrials>& trials) {
  constexpr Column kColumns[] = {
      {.heading = "", .key = "letter"},
      {.heading = "format", .key = "format"},
      {.heading = "scale", .key = "scale"},
      {.heading = "bits/value", .key = "bits_per_value", .format = "{:.2f}"},
      {.heading = "SQNR dB", .key = "sqnr_db", .text = decibel_cell},
      {.heading = "to zero", .key = "underflow", .text = percent_cell},
      {.heading = "saturated", .key = "saturation", .text = percent_cell},
      {.heading = "max error", .key = "max_abs_error", .text = error_cell},
      {.heading = "scale rule", .key = "rule"}};
  Json rows = Json::array();
  for (size_t i = 0; i < trials.size(); ++i) {
    const FormatTrial& own = trials[i].front();
    rows.push_back(trial_row(own, std::string(1, letter(i)), ""));
    const FormatTrial* best = &own;
    for (const FormatTrial& trial : trials[i])
      if (trial.errors.sqnr_db > best->errors.sqnr_db) best = &trial;
    if (best != &own) rows.push_back(trial_row(*best, "", ", best"));
  }
  return table_of(rows, kColumns, 3);
}

// What has the SQNR only because a few values hold nearly all of the tensor's power.
std::string passed_over(const std::vector<FormatTrial>& trials) {
  const FormatTrial* other = cheapest(trials, kSqnrLevels.back(), false);
  if (other == nullptr) return "";
  const FormatTrial* best = cheapest(trials, kSqnrLevels.back());
  if (best != nullptr && best->bits <= other->bits) return "";
  const auto& errors = other->errors;
  return fmt::format(
      "  Passed over: {}, {:.2f} bits, which turns {} of the values into 0 and "
      "saturates {}.\n",
      other->name, other->bits, percent_text(errors.underflow), percent_text(errors.saturation));
}

// A sentence, broken where a line would be too long.
std::string recommendation(const std::vector<FormatTrial>& trials) {
  constexpr size_t kColumns = 98;
  std::string text, line = "  Cheapest for";
  const FormatTrial* last = nullptr;
  for (const double level : kSqnrLevels) {
    const FormatTrial* best = cheapest(trials, level);
    if (best == nullptr || best == last) continue;
    if (last != nullptr) line += ',';
    const std::string part = fmt::format(" {:.0f} dB: {}{} ({:.2f} bits)", level, best->name,
                                         best->rule.empty() ? "" : " " + best->rule, best->bits);
    if (line.size() + part.size() > kColumns) {
      text += line + '\n';
      line = "   ";
    }
    line += part;
    last = best;
  }
  if (last != nullptr) return text + line + ".\n" + passed_over(trials);
  const std::string other = passed_over(trials);
  return fmt::format("{}  None of {} reaches 20 dB, an error of 10 % of the rms value.\n", other,
                     other.empty() ? "these formats" : "the others");
}

}  // namespace

std::string inspect_text(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                         const std::vector<RuleTrials>& trials) {
  const std::vector<FormatTrial> own = own_rules(trials);
  std::string text = facts_text(entry, facts) + histogram_text(facts, own);
  if (facts.values > facts.zeros) text += table_text(trials) + recommendation(own);
  return text + '\n';
}

}  // namespace ng::cli
