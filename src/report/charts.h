// The charts that pages of one run and of several have in common.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/history.h"
#include "report/page.h"

namespace ng::report {

/// The mean over about a fiftieth of the points, as many before as after each; the line itself
/// where there are few.
[[nodiscard]] Line smoothed(Line line);

/// The mean of lines at each x where one of them has a value, with a band from their lowest to
/// their highest where there are several.
[[nodiscard]] Line mean_of(const std::string& name, int color, std::span<const Line> lines);

/// Layers and a series of each; null where one has none.
using SeriesByLayer = std::vector<std::pair<std::string, const Series*>>;
/// A line for each kind of layer, over all blocks, or of one and what lies outside of blocks;
/// colours by the order of kinds.
[[nodiscard]] std::vector<Line> lines_by_kind(const SeriesByLayer& all, int64_t block);

/// What `charts` makes of all blocks, which are -1 to it, and of each of several; `names` are those
/// of layers. Nothing where there are no charts.
[[nodiscard]] std::vector<ChartChoice> choices_by_block(
    const std::vector<std::string>& names,
    const std::function<std::vector<LineChart>(int64_t block)>& charts);

/// Charts without lines: of training and validation loss, and of what runs beside them.
[[nodiscard]] LineChart loss_chart(const std::string& title);
[[nodiscard]] LineChart lr_chart();
[[nodiscard]] LineChart grad_norm_chart();
[[nodiscard]] LineChart speed_chart();
/// Of one operand.
[[nodiscard]] LineChart operand_chart(const std::string& role, Loss loss);

/// What the casts of a run lose: the six roles with a chart of each loss, over all blocks and for
/// each block; a line for each kind of layer.
[[nodiscard]] std::vector<ChartChoice> operand_charts(const History& history);

/// The same of one role over all layers and blocks; no values where nothing was counted.
[[nodiscard]] Line operand_line(const History& history, const std::string& role, Loss loss);

/// What updates do to the weights of a run, and the bit-widths that noise on weights learns: a
/// chart of each metric that has values, over all blocks and for each block; a line for each kind
/// of layer.
[[nodiscard]] std::vector<ChartChoice> update_charts(const History& history);
[[nodiscard]] std::vector<ChartChoice> bit_charts(const History& history);

/// What a run on pairs of a chosen and a rejected completion learns: margins, accuracies, rewards
/// and log-probabilities over the steps, by TRL's names.
[[nodiscard]] Section preference_section(const History& history);

/// Roles in the order of the recipe.
[[nodiscard]] std::vector<std::string> role_names();

/// What the numbers of these charts are.
inline constexpr const char* kUpdateNote =
    "What single updates did to the matrices as they are stored: the share of weights whose value "
    "is another, the length of the change beside the length that was asked for (1 is right), its "
    "part along the direction asked for (1: no bias), and the cosine of the angle between both. "
    "Where the update is precision-aware, alpha / lr is by how much the step was lengthened so "
    "that the rounded one has the length asked for.";
inline constexpr const char* kBitNote =
    "The bit-widths b_t of the blocks of weights that share one, as they are learned: their mean "
    "by layer, the deviation and the range over a layer's blocks, and the shares of blocks that "
    "fit into formats of 8 bits (5 or fewer), BF16 (9 or fewer) and FP16 (12 or fewer).";
inline constexpr const char* kOperandNote =
    "What is lost when the operands of the linear layers' products are cast: the signal-to-noise "
    "ratio (SQNR, of a sample of each operand), the share of values above the largest the format "
    "has (saturated), and of those that became 0 (underflow). Operands in FP32 and BF16 are not "
    "counted; shares of an operand that several layers have in common are counted under the first "
    "of them.";

}  // namespace ng::report
