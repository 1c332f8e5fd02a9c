// The rows of a comparison as cells and sentences.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/units.h"
#include "compare/compare_table.h"

namespace ng {
namespace {

std::string name_of_row(const CompareRow& row) {
  return row.of.label + (row.of.twin == TwinOf::none ? "" : ", twin, to its own");
}

std::string loss_text(const ComparedLoss& loss) {
  if (std::isnan(loss.mean)) return "";
  return std::isnan(loss.sd) ? fmt::format("{:.4f}", loss.mean)
                             : fmt::format("{:.4f} (sd {:.4f})", loss.mean, loss.sd);
}

std::string p_text(double p) { return std::isnan(p) ? "" : fmt::format("{:.2g}", p); }

bool has_bf16(const CompareTable& table) {
  return std::ranges::any_of(table.rows,
                             [](const CompareRow& row) { return !std::isnan(row.bf16.mean); });
}

// What differences are to, where that is one row's name; else "the first".
std::string first_name(const CompareTable& table) {
  const std::string& first = table.rows.front().of.label;
  return table.blocks.size() > 0 && std::ranges::all_of(table.rows,
                                                        [&](const CompareRow& row) {
                                                          return row.of.twin != TwinOf::none ||
                                                                 row.against.empty() ||
                                                                 row.against == first;
                                                        })
             ? first
             : "the first";
}

void add_grid(const CompareTable& table, CompareCells& cells) {
  cells.heading = {"recipe"};
  for (const auto& [key, value] : table.rows.front().of.settings) cells.heading.push_back(key);
  for (const CompareRow& row : table.rows) {
    cells.rows.push_back({name_of_row(row)});
    for (const auto& [key, value] : row.of.settings) cells.rows.back().push_back(value);
  }
}

void add_column(CompareCells& cells, const CompareTable& table, const std::string& heading,
                const std::function<std::string(const CompareRow&)>& text) {
  cells.heading.push_back(heading);
  for (size_t i = 0; i < table.rows.size(); ++i) cells.rows[i].push_back(text(table.rows[i]));
}

void add_comparison(CompareCells& cells, const CompareTable& table, const std::string& heading,
                    ComparedLoss CompareRow::*of) {
  add_column(cells, table, heading,
             [&](const CompareRow& row) { return row.against.empty() ? "" : gap_text(row.*of); });
  add_column(cells, table, "p (Holm)",
             [&](const CompareRow& row) { return p_text((row.*of).p_holm); });
  add_column(cells, table, "verdict", [&](const CompareRow& row) {
    return row.of.twin != TwinOf::none ? "noise floor" : (row.*of).verdict;
  });
}

// By what intervals in one measure were made; empty where there are none.
std::string scatter_text(const CompareTable& table, const CompareBlock& block,
                         const PairedScatter& scatter) {
  if (scatter.is_pooled)
    return fmt::format(
        "how far a difference scatters from seed to seed, {:.4f} nats (a standard deviation, of "
        "all recipes together, with {} of freedom)",
        scatter.sd, counted(scatter.degrees, "degree"));
  if (scatter.unlike < 0) return "";
  const CompareRow& unlike = table.rows[block.rows[static_cast<size_t>(scatter.unlike)]];
  return fmt::format(
      "how far each row's own differences scatter, not all together, since {} scatters unlike the "
      "others",
      name_of_row(unlike));
}

std::string scatter_sentence(const CompareTable& table, const CompareBlock& block) {
  const GridSettings& settings = table.rows[block.rows.front()].of.settings;
  const std::string where = table.blocks.size() > 1 ? text_of(settings) + ": " : "";
  const std::string own = scatter_text(table, block, block.own);
  const std::string bf16 = scatter_text(table, block, block.bf16);
  if (own.empty()) return "";
  return fmt::format("{}± is half of a 95 % interval (Student's t), made in own numbers of {}{}.",
                     where, own, bf16.empty() ? "" : "; in BF16 of " + bf16);
}

// Of recipes that validate as bf16 does, whose two losses are the same to the bit; empty: none.
std::string one_figure_sentence(const CompareTable& table) {
  std::vector<std::string> names;
  for (const CompareRow& row : table.rows)
    if (row.own.by_seed == row.bf16.by_seed &&
        std::ranges::find(names, row.of.label) == names.end())
      names.push_back(row.of.label);
  if (names.empty()) return "";
  return fmt::format(
      "A forward pass in BF16 makes one figure of the two losses: those of {} are the same.",
      fmt::join(names, ", "));
}

std::string twin_text(TwinOf twin) {
  return twin == TwinOf::draws
             ? "which has the same first weights and batches and other draws of rounding"
             : "which draws nothing, so that its first weights are larger by a millionth";
}

std::string floor_sentence(const CompareTable& table, const NoiseFloor& floor) {
  const CompareRow& twin = table.rows[floor.row];
  const std::string point = text_of(twin.of.settings);
  const std::string who =
      fmt::format("{}Noise floor: {} and its twin, {},", point.empty() ? "" : point + ": ",
                  twin.of.label, twin_text(twin.of.twin));
  if (floor.own == 0) return who + " end in the same loss: no floor is known.";
  const std::string bf16 =
      std::isnan(floor.bf16) ? "" : fmt::format(" ({:.4f} in BF16)", floor.bf16);
  return fmt::format(
      "{} end {:.4f} nats apart{}, root mean square over {}. Less than that says "
      "nothing.",
      who, floor.own, bf16, counted(static_cast<int64_t>(twin.seeds.size()), "seed"));
}

bool is_compared(const CompareTable& table) {
  return std::ranges::any_of(table.blocks,
                             [](const CompareBlock& block) { return block.rows.size() > 1; });
}

void add_verdict_sentences(const CompareTable& table, std::vector<std::string>& sentences) {
  if (table.tests == 0) {
    sentences.emplace_back(
        "One seed: differences cannot be judged, whatever their size. Three seeds or more can "
        "(--seeds 3).");
    return;
  }
  sentences.push_back(fmt::format(
      "Verdicts: worse and better mean p < 0.05 after Holm's correction for {}; equal, that the "
      "whole interval lies within ±{} nats (--equal); not resolved, that these seeds cannot tell.",
      counted(table.tests, "difference"), table.equal));
}

}  // namespace

std::string gap_text(const ComparedLoss& loss) {
  const PairedDifference& d = loss.difference;
  if (std::isnan(d.mean)) return "";
  return std::isnan(d.half) ? fmt::format("{:+.4f}", d.mean)
                            : fmt::format("{:+.4f} ± {:.4f}", d.mean, d.half);
}

std::string divergence_text(const CompareRow& row) {
  if (row.diverged == 0) return "";
  const auto seeds = static_cast<int64_t>(row.seeds.size());
  return row.diverged == seeds ? "diverged" : fmt::format("{} of {} diverged", row.diverged, seeds);
}

CompareCells loss_cells(const CompareTable& table) {
  CompareCells cells;
  add_grid(table, cells);
  const bool bf16 = has_bf16(table);
  add_column(cells, table, "seeds",
             [](const CompareRow& row) { return std::to_string(row.seeds.size()); });
  add_column(cells, table, "validation loss", [](const CompareRow& row) {
    return row.diverged != 0 ? divergence_text(row) : loss_text(row.own);
  });
  if (bf16)
    add_column(cells, table, "in BF16", [](const CompareRow& row) { return loss_text(row.bf16); });
  if (is_compared(table) || !table.floors.empty()) {
    add_comparison(cells, table, "to " + first_name(table), &CompareRow::own);
    if (bf16) add_comparison(cells, table, "in BF16 to " + first_name(table), &CompareRow::bf16);
  }
  return cells;
}

CompareCells cost_cells(const CompareTable& table) {
  CompareCells cells;
  add_grid(table, cells);
  add_column(cells, table, "bits per byte", [](const CompareRow& row) {
    return std::isnan(row.bits_per_byte) ? "" : fmt::format("{:.4f}", row.bits_per_byte);
  });
  add_column(cells, table, "tokens/s",
             [](const CompareRow& row) { return count_text(std::llround(row.tokens_per_second)); });
  add_column(cells, table, "skipped",
             [](const CompareRow& row) { return count_text(row.skipped); });
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    const auto bytes = [kind](const CompareRow& row) { return row.bytes_per_parameter.most[kind]; };
    if (std::ranges::any_of(table.rows, [&](const CompareRow& row) { return bytes(row) >= 0.005; }))
      add_column(cells, table, std::string(name_of(static_cast<MemoryKind>(kind))),
                 [&](const CompareRow& row) { return fmt::format("{:.2f}", bytes(row)); });
  }
  add_column(cells, table, "all memory", [](const CompareRow& row) {
    return fmt::format("{:.2f}", row.bytes_per_parameter.total);
  });
  return cells;
}

std::vector<std::string> compare_sentences(const CompareTable& table) {
  std::vector<std::string> sentences;
  if (has_bf16(table))
    sentences.emplace_back(
        "The validation loss is in each recipe's own numbers; \"in BF16\" is that of the same "
        "model validated once more in recipe bf16, so that only training differs.");
  if (has_bf16(table) && !table.saved_as.empty())
    sentences.push_back(fmt::format(
        "In BF16 the weights are read from model/, which train.save_dtype rounds to {}; losses in "
        "own numbers are of the weights as they were trained.",
        fmt::join(table.saved_as, " or ")));
  if (std::string text = one_figure_sentence(table); !text.empty())
    sentences.push_back(std::move(text));
  if (is_compared(table)) {
    for (const CompareBlock& block : table.blocks)
      if (std::string text = scatter_sentence(table, block); !text.empty())
        sentences.push_back(std::move(text));
    add_verdict_sentences(table, sentences);
  }
  for (const NoiseFloor& floor : table.floors) sentences.push_back(floor_sentence(table, floor));
  if (table.floors.empty() && is_compared(table))
    sentences.emplace_back("No twin was run: the noise floor is not known.");
  return sentences;
}

std::string speed_sentence(const CompareTable& table) {
  if (table.machines.empty()) return "";
  return fmt::format("tokens/s are medians of steps on {}",
                     fmt::join(table.machines, "; some on "));
}

}  // namespace ng
