#include "report/inspection_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "base/units.h"
#include "chart/chart.h"
#include "recipe/layer_names.h"
#include "tools/tensor_input.h"

namespace ng::report {
namespace {

constexpr int kMostBars = 40;
constexpr size_t kMostSeries = 8;  // of a chart
constexpr size_t kMostCategories = 24;

using Texts = std::vector<std::string>;

std::string decibels(double sqnr_db) {
  if (std::isnan(sqnr_db)) return "-";
  return std::isinf(sqnr_db) ? "exact" : fmt::format("{:.2f}", sqnr_db);
}
std::string share_text(double share) {
  if (share == 0) return "0 %";
  return share < 1e-4 ? "< 0.01 %" : fmt::format("{:.2f} %", 100 * share);
}
double finite_or_gap(double sqnr_db) { return std::isfinite(sqnr_db) ? sqnr_db : NAN; }

bool has_content(const InspectedTensor& tensor) {
  return tensor.facts.finite() > tensor.facts.zeros;
}

std::vector<Cell> cells_of(Texts texts) {
  std::vector<Cell> cells;
  for (std::string& text : texts) cells.push_back({.text = std::move(text)});
  return cells;
}

/// What a format makes of values: columns between `names` and `more`.
Texts with_figures(Texts names, const Texts& figures, const Texts& more) {
  names.insert(names.end(), figures.begin(), figures.end());
  names.insert(names.end(), more.begin(), more.end());
  return names;
}
Texts figure_heading(Texts names, const Texts& more) {
  return with_figures(std::move(names), {"bits/value", "SQNR dB", "saturated", "to zero"}, more);
}
std::vector<Cell> figure_row(Texts names, const FormatTrial& trial, const Texts& more) {
  return cells_of(
      with_figures(std::move(names),
                   {fmt::format("{:.2f}", trial.bits), decibels(trial.errors.sqnr_db),
                    share_text(trial.errors.saturation), share_text(trial.errors.underflow)},
                   more));
}

// ---------------------------------------------------------------- all tensors together

/// Sums over tensors. Errors are in units of each tensor's own rms, so that one of large values
/// does not speak for all.
struct Sums {
  double errors = 0, values = 0, nonzero = 0, flushed = 0, saturated = 0, bits = 0;

  void add(const TensorFacts& facts, const FormatTrial& trial) {
    const auto count = static_cast<double>(trial.errors.values);
    const auto zeros = static_cast<double>(facts.zeros);
    errors += trial.errors.relative_mse * count;
    values += count;
    nonzero += count - zeros;
    flushed += trial.errors.underflow * (count - zeros);
    saturated += trial.errors.saturation * count;
    bits += trial.bits * count;
  }
};

FormatTotal total_of(const std::vector<InspectedTensor>& tensors, size_t format, size_t rule) {
  // Vectors (norms, biases) are not what formats are for: they count where there is nothing else.
  const bool has_matrices = std::ranges::any_of(tensors, [](const InspectedTensor& tensor) {
    return has_content(tensor) && tensor.shape.size() > 1;
  });
  const size_t least_rank = has_matrices ? 2 : 0;
  Sums sums;
  FormatTotal total;
  total.least_db = HUGE_VAL;
  for (const InspectedTensor& tensor : tensors) {
    if (!has_content(tensor) || tensor.shape.size() < least_rank) continue;
    const FormatTrial& trial = tensor.trials[format][rule];
    sums.add(tensor.facts, trial);
    total.of_all.name = trial.name;
    total.of_all.rule = trial.rule;
    total.of_all.cast = trial.cast;
    if (!(trial.errors.sqnr_db < total.least_db)) continue;
    total.least_db = trial.errors.sqnr_db;
    total.least_named = tensor.name;
  }
  total.of_all.errors.sqnr_db = -10 * std::log10(sums.errors / sums.values);
  total.of_all.errors.underflow = sums.flushed / sums.nonzero;
  total.of_all.errors.saturation = sums.saturated / sums.values;
  total.of_all.bits = sums.bits / sums.values;
  return total;
}

/// Whether it has a value to draw.
bool is_drawable(const chart::Chart& chart) {
  return std::ranges::any_of(chart.series, [](const chart::Series& series) {
    return std::ranges::any_of(series.y, [](double y) { return std::isfinite(y); });
  });
}

void add_picture(Section& section, const chart::Chart& chart) {
  if (is_drawable(chart)) section.pictures.push_back(chart::svg_of(chart));
}

/// Marks by rule over formats: a format's own rule, and each of all others.
chart::Chart rules_chart(const std::vector<std::vector<FormatTotal>>& totals) {
  chart::Chart chart{.kind = chart::Chart::Kind::points,
                     .caption = "SQNR by format and scale rule",
                     .x_label = "format",
                     .y_label = "SQNR of the inspected matrices, dB",
                     .from_zero = false};
  std::vector<chart::Series> series = {{.name = "as cast and recipes, unless told otherwise"}};
  for (size_t f = 0; f < totals.size(); ++f) {
    chart.categories.push_back(totals[f].front().of_all.name);
    for (size_t r = 0; r < totals[f].size(); ++r) {
      const FormatTrial& total = totals[f][r].of_all;
      const std::string name = r == 0 ? series.front().name : "rule " + total.rule;
      auto one = std::ranges::find(series, name, &chart::Series::name);
      if (one == series.end()) one = series.insert(one, {.name = name});
      one->y.resize(totals.size(), NAN);
      one->y[f] = finite_or_gap(total.errors.sqnr_db);
    }
  }
  if (series.size() > kMostSeries) series.resize(kMostSeries);
  chart.series = std::move(series);
  return chart;
}

/// Of narrow elements without a scale, which stand beside scaled ones: what to make of them.
std::string unscaled_note(const std::vector<std::vector<FormatTotal>>& totals) {
  constexpr int kNarrow = 8;  // bits; wider elements reach far enough for most values
  Texts names;
  for (const std::vector<FormatTotal>& rules : totals)
    if (const FormatTrial& trial = rules.front().of_all;
        trial.cast.is_unscaled() && trial.cast.element->bits <= kNarrow)
      names.push_back(trial.name);
  if (names.empty()) return "";
  return fmt::format(
      "\nWithout a scale: {}. Values are cast as they are, so that what is small beside the "
      "smallest number of the element becomes zero; the other formats move the values of a block "
      "to where their elements lie. The two kinds are not rivals.",
      fmt::join(names, ", "));
}

std::string rule_text(const FormatTrial& trial) {
  return trial.cast.is_unscaled() ? "no scale" : trial.rule;
}

Section formats_section(const std::vector<std::vector<FormatTotal>>& totals) {
  Section section{
      .heading = "Error by format and scale rule",
      .note =
          "The signal-to-noise ratio (SQNR) over all matrices that were inspected, values in units "
          "of their tensor's rms: the power of the values over that of the rounding error. 20 dB "
          "is an error of 10 % "
          "of the rms value, each 6 dB a bit. The rule is how a block's scale is found from its "
          "largest value; the first of each format is what cast and recipes do where nobody names "
          "another.",
      .table = {.heading = figure_heading({"format", "scale rule"}, {"worst tensor, dB", "which"}),
                .rows = {}}};
  for (const std::vector<FormatTotal>& rules : totals)
    for (const FormatTotal& total : rules)
      section.table.rows.push_back(figure_row({total.of_all.name, rule_text(total.of_all)},
                                              total.of_all,
                                              {decibels(total.least_db), total.least_named}));
  section.note += unscaled_note(totals);
  add_picture(section, rules_chart(totals));
  return section;
}

// ---------------------------------------------------------------- by layer

/// A name with a number in it: which block, and of what kind ("attn.q.weight").
struct Numbered {
  int64_t block = -1;
  std::string kind;
};

Numbered numbered(const InspectedTensor& tensor) {
  const std::string& name = tensor.parameter.empty() ? tensor.name : tensor.parameter;
  const layers::Place place = layers::place_of(name);
  if (place.block >= 0) return {place.block, std::string(place.part)};
  const size_t digit = name.find_first_of("0123456789");
  const size_t end = name.find_first_not_of("0123456789", digit);
  const bool is_part = digit != std::string::npos && digit > 0 && name[digit - 1] == '.' &&
                       end != std::string::npos && name[end] == '.' && end - digit < 10;
  if (!is_part) return {-1, name};
  return {std::stoll(name.substr(digit, end - digit)), name.substr(end + 1)};
}

/// SQNR of matrices in blocks, by format: [kind][block].
class ByBlock {
 public:
  explicit ByBlock(const std::vector<InspectedTensor>& tensors) {
    for (const InspectedTensor& tensor : tensors) {
      const Numbered place = numbered(tensor);
      if (place.block < 0 || tensor.shape.size() < 2 || !has_content(tensor)) continue;
      if (std::ranges::find(kinds_, place.kind) == kinds_.end()) kinds_.push_back(place.kind);
      blocks_.insert(place.block);
      of_[{place.kind, place.block}] = &tensor;
    }
  }
  [[nodiscard]] bool is_drawn() const { return blocks_.size() > 1; }
  [[nodiscard]] size_t left_out() const {
    return kinds_.size() - std::min(kinds_.size(), kMostSeries);
  }

  [[nodiscard]] chart::Chart chart_of(size_t format, const std::string& name) const {
    chart::Chart chart{.kind = chart::Chart::Kind::lines,
                       .caption = name,
                       .x_label = "block",
                       .y_label = "SQNR, dB",
                       .from_zero = false};
    for (const int64_t block : blocks_) chart.x.push_back(static_cast<double>(block));
    if (blocks_.size() <= 12) chart.x_ticks = chart.x;
    for (const std::string& kind : std::span(kinds_).first(kinds_.size() - left_out())) {
      chart.series.push_back({.name = kind});
      for (const int64_t block : blocks_) {
        const auto found = of_.find({kind, block});
        chart.series.back().y.push_back(
            found == of_.end()
                ? NAN
                : finite_or_gap(found->second->trials[format].front().errors.sqnr_db));
      }
    }
    return chart;
  }

 private:
  std::vector<std::string> kinds_;
  std::set<int64_t> blocks_;
  std::map<std::pair<std::string, int64_t>, const InspectedTensor*> of_;
};

/// Of tensors that lie in no blocks: each a group of marks, formats beside each other.
chart::Chart tensors_chart(const std::vector<InspectedTensor>& tensors) {
  chart::Chart chart{.kind = chart::Chart::Kind::points,
                     .caption = "SQNR by tensor and format",
                     .y_label = "SQNR, dB",
                     .from_zero = false};
  for (const RuleTrials& rules : tensors.front().trials)
    if (chart.series.size() < kMostSeries) chart.series.push_back({.name = rules.front().name});
  for (const InspectedTensor& tensor : tensors) {
    if (!has_content(tensor) || chart.categories.size() == kMostCategories) continue;
    chart.categories.push_back(tensor.name);
    for (size_t f = 0; f < chart.series.size(); ++f)
      chart.series[f].y.push_back(finite_or_gap(tensor.trials[f].front().errors.sqnr_db));
  }
  return chart;
}

Table tensors_table(const std::vector<InspectedTensor>& tensors) {
  Table table{.heading = {"tensor", "dtype", "shape", "largest", "rms", "zeros"}, .rows = {}};
  for (const RuleTrials& rules : tensors.front().trials)
    table.heading.push_back(rules.front().name);
  for (const InspectedTensor& tensor : tensors) {
    const TensorFacts& facts = tensor.facts;
    Texts row = {tensor.name,
                 tensor.dtype,
                 shape_text(tensor.shape),
                 fmt::format("{:.3g}", facts.amax()),
                 fmt::format("{:.3g}", facts.rms()),
                 share_text(facts.values == 0 ? 0.0
                                              : static_cast<double>(facts.zeros) /
                                                    static_cast<double>(facts.values))};
    for (const RuleTrials& rules : tensor.trials)
      row.push_back(decibels(rules.front().errors.sqnr_db));
    table.rows.push_back(cells_of(std::move(row)));
  }
  return table;
}

Section layers_section(const std::vector<InspectedTensor>& tensors) {
  Section section{.heading = "Error by layer",
                  .note =
                      "SQNR in dB, each format by its own rule. What has no error (exact) and "
                      "what has no values but 0 (-) is not drawn.",
                  .table = tensors_table(tensors)};
  const ByBlock blocks(tensors);
  if (blocks.is_drawn()) {
    chart::Panels panels{.caption = "SQNR by block, one picture for each format", .charts = {}};
    for (size_t f = 0; f < tensors.front().trials.size(); ++f) {
      chart::Chart chart = blocks.chart_of(f, tensors.front().trials[f].front().name);
      if (is_drawable(chart)) panels.charts.push_back(std::move(chart));
    }
    if (!panels.charts.empty()) section.pictures.push_back(chart::svg_of(panels));
    if (blocks.left_out() > 0)
      section.note +=
          fmt::format(" {} more kinds of layers are in the table alone.", blocks.left_out());
  } else {
    add_picture(section, tensors_chart(tensors));
  }
  return section;
}

// ---------------------------------------------------------------- a recipe, histograms

Section recipe_use_section(const Inspection& inspection) {
  Section section{
      .heading = "What the recipe does to each tensor",
      .note = inspection.recipe +
              ". Each operand that a product makes of the tensor, and as what the tensor is stored "
              "where that is not FP32. Saturated: above the largest value that the format has "
              "there; to zero: of the values that were not. Transforms (Hadamard) come before the "
              "cast in training and are left out here.",
      .table = {.heading = figure_heading({"tensor", "layer", "operand", "format"}, {"transform"}),
                .rows = {}}};
  for (const InspectedTensor& tensor : inspection.tensors)
    for (const RecipeUse& use : tensor.uses)
      section.table.rows.push_back(
          figure_row({tensor.name, use.layer, use.operand, describe(use.trial.cast)}, use.trial,
                     {use.hadamard > 0 ? std::to_string(use.hadamard) : ""}));
  return section;
}

GridHistogram histogram_of(const InspectedTensor& tensor) {
  const TensorFacts& facts = tensor.facts;
  GridHistogram histogram{
      .title = tensor.name,
      .note = fmt::format("{} {}, {} values, largest {:.3g}, rms {:.3g}", tensor.dtype,
                          shape_text(tensor.shape), count_text(static_cast<int64_t>(facts.values)),
                          facts.amax(), facts.rms())};
  if (!has_content(tensor)) return histogram;
  int top = 127, bottom = Binades::kLowest;
  while (facts.binades.at(top) == 0) --top;
  while (facts.binades.at(bottom) == 0) ++bottom;
  const int last = std::max(bottom, top - kMostBars + 1);
  histogram.top = top;
  for (int e = top; e >= last; --e) histogram.counts.push_back(facts.binades.at(e));
  for (int e = bottom; e < last; ++e) histogram.below += facts.binades.at(e);
  for (const RuleTrials& rules : tensor.trials) {
    GridHistogram::Row row{.name = rules.front().name, .states = {}};
    for (int e = top; e >= last; --e) row.states += binade_state(rules.front(), e);
    histogram.rows.push_back(std::move(row));
  }
  return histogram;
}

Section histograms_section(const std::vector<InspectedTensor>& tensors) {
  Section section{.heading = "Values over the grids of formats",
                  .note =
                      "How many values lie in each binade, from a power of two to the next, and "
                      "what each format, by its own rule, makes of that binade.",
                  .choice_label = "tensor"};
  for (const InspectedTensor& tensor : tensors)
    section.choices.push_back({.name = tensor.name, .histograms = {histogram_of(tensor)}});
  return section;
}

}  // namespace

std::vector<std::vector<FormatTotal>> totals_of(const std::vector<InspectedTensor>& tensors) {
  std::vector<std::vector<FormatTotal>> totals;
  if (std::ranges::none_of(tensors, has_content)) return totals;
  const std::vector<RuleTrials>& formats = tensors.front().trials;
  for (size_t f = 0; f < formats.size(); ++f) {
    totals.emplace_back();
    for (size_t r = 0; r < formats[f].size(); ++r) totals.back().push_back(total_of(tensors, f, r));
  }
  return totals;
}

Page inspection_page(const Inspection& inspection) {
  Page page{.title = "Inspection of " + inspection.name,
            .subtitle = "What number formats make of these values",
            .facts = lines_of(inspection.summary),
            .sections = {}};
  if (!inspection.chosen.empty()) page.facts.emplace_back("inspected", inspection.chosen);
  if (!inspection.recipe.empty()) page.facts.emplace_back("recipe", inspection.recipe);
  const auto totals = totals_of(inspection.tensors);
  if (!totals.empty()) page.sections.push_back(formats_section(totals));
  page.sections.push_back(layers_section(inspection.tensors));
  if (!inspection.recipe.empty()) page.sections.push_back(recipe_use_section(inspection));
  page.sections.push_back(histograms_section(inspection.tensors));
  return page;
}

}  // namespace ng::report
