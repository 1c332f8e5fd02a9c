// study update: source 000's figures. How long a rounded step is and where it points, for weights
// without a wider copy, under every rule, at learning rates from 1e-1 to 1e-10. [recipes.md §5]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/update_steps.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr std::string_view kExpectation = "stochastic mean";
constexpr size_t kRates = std::size(kUpdateRates);

struct UpdateMeasure {
  const char* name;
  const char* caption;
  double StepMetrics::*of;
};
constexpr UpdateMeasure kUpdateMeasures[] = {
    {"rho", "Magnitude ratio ‖Δ‖/‖Δ*‖", &StepMetrics::rho},
    {"pi", "Projection <Δ,Δ*>/‖Δ*‖², 1 where nothing is biased", &StepMetrics::pi},
    {"eps", "Error of a parameter, mean|Δ - Δ*|/mean|Δ*|", &StepMetrics::eps},
    {"cosine", "Cosine of the angle between Δ and Δ*", &StepMetrics::cosine},
    {"changed", "Share of the weights that change", &StepMetrics::changed},
    {"lost_norm", "‖Δ*‖ - ‖Δ‖ (source 000)", &StepMetrics::lost_norm},
    {"median_ratio", "Median of (w - w')/u (source 000 took the mean, which has no variance)",
     &StepMetrics::median_ratio}};
constexpr size_t kShownMeasures = 3;  // the specification's table

/// Ways, with the expectation of stochastic rounding behind its draw.
Names columns() {
  Names names;
  for (const UpdateWay& way : update_ways()) {
    names.emplace_back(way.name);
    if (way.rule == UpdateRule::stochastic) names.emplace_back(kExpectation);
  }
  return names;
}

/// All learning rates of a column.
const std::vector<StepMetrics>& column_of(const OneStep& step, std::string_view name) {
  if (name == kExpectation) return step.expected;
  return step.found[static_cast<size_t>(&update_way(name) - update_ways().data())];
}

/// One kind of direction: [formats].
using Steps = std::vector<OneStep>;

/// What a section is about.
struct Kind {
  DirectionKind kind;
  const char* prefix;  ///< of its tables' names
  const char* heading;
};
constexpr Kind kUpdateKinds[] = {
    {DirectionKind::independent, "", "One step, directions that do not depend on the weights"},
    {DirectionKind::unrounded, "same_key_",
     "One step along the numbers that the weights were rounded from: one random key for both"},
    {DirectionKind::equal, "equal_", "One step along the weights themselves, u = w"}};

// ---------------------------------------------------------------- the specification's figures
// [recipes.md §5; errata-2, 24, 25]

/// By learning rate from 1e-1 on. Left out: single draws of stochastic rounding below 1e-4, and
/// what fewer than about a thousand of the 2^20 weights decide.
struct Row {
  std::string_view format, way, measure;
  double figures[8];
};
constexpr double kNo = kNone;
constexpr Row kUpdateRows[] = {
    {"E4M3", "nearest", "rho", {1.03, .68, .23, 0, 0, 0, 0, 0}},
    {"E4M3", "nearest", "pi", {.995, .351, .036, 0, 0, 0, 0, 0}},
    {"E4M3", "nearest", "eps", {.22, .84, .99, 1, 1, 1, 1, 1}},
    {"E4M3", "stochastic mean", "rho", {1.07, 2.4, 7.7, 24, kNo, kNo, kNo, kNo}},
    {"E4M3", "stochastic mean", "pi", {1, 1, 1, 1, 1, 1, kNo, kNo}},
    {"E4M3", "stochastic mean", "eps", {.30, 1.36, 1.9, 2.0, 2.0, kNo, kNo, kNo}},
    {"E4M3", "precision_aware", "rho", {1, 1, 1.01, .99, kNo, kNo, 0, 0}},
    {"E4M3", "precision_aware", "pi", {.963, .583, .275, .104, kNo, kNo, 0, 0}},
    {"E4M3", "precision_aware", "eps", {.23, .88, 1.1, 1.05, 1, 1, 1, 1}},
    {"E4M3, pow2 scale", "nearest", "rho", {kNo, kNo, kNo, .070, kNo, kNo, kNo, kNo}},
    {"FP16", "nearest", "rho", {kNo, kNo, 1.02, .75, .25, .079, kNo, kNo}},
    {"FP16", "stochastic mean", "rho", {kNo, kNo, 1.04, 2.1, 6.7, 21, kNo, kNo}},
    {"FP16", "stochastic mean", "pi", {1, 1, 1, 1, 1, 1, 1, .36}},
    {"FP16", "precision_aware", "rho", {1, 1, 1, 1, 1, 1, 1, 1}},
    {"FP16", "precision_aware", "pi", {kNo, kNo, .98, .62, .30, .14, .064, .030}},
    {"BF16", "nearest", "rho", {1, 1.01, .82, .28, .089, kNo, kNo, kNo}},
    {"BF16", "nearest", "pi", {1, 1, .521, .057, .006, kNo, kNo, kNo}},
    {"BF16", "nearest", "eps", {.014, .14, .76, .98, 1, 1, 1, 1}},
    {"BF16", "stochastic mean", "rho", {1, 1.03, 1.92, 6.0, kNo, kNo, kNo, kNo}},
    {"BF16", "stochastic mean", "pi", {1, 1, 1, 1, 1, 1, 1, .36}},
    {"BF16", "stochastic mean", "eps", {.019, .19, 1.15, 1.8, kNo, kNo, kNo, kNo}},
    {"BF16", "precision_aware", "rho", {1, 1, 1, 1.01, 1.01, 1.01, .99, 1}},
    {"BF16", "precision_aware", "pi", {1, .984, .672, .321, .150, .070, .032, .015}},
    {"BF16", "precision_aware", "eps", {.014, .14, .77, 1.1, 1.1, 1.05, 1, 1}},
};

/// Of a measure, a format, a way ("stochastic mean": in expectation over the random bits) and a
/// learning rate 10^-(rate + 1). NaN: none.
double specified_figure(std::string_view measure, std::string_view format, std::string_view way,
                        size_t rate) {
  for (const Row& row : kUpdateRows)
    if (row.measure == measure && row.format == format && row.way == way)
      return rate < std::size(row.figures) ? row.figures[rate] : kNone;
  return kNone;
}

// ---------------------------------------------------------------- tables

Grid grid_of(const OneStep& step, size_t format, const UpdateMeasure& measure, const Kind& kind,
             bool has_figures) {
  const std::string_view name = weight_formats()[format].name;
  const Names ways = columns();
  return Grid(fmt::format("{}{}, {}", kind.prefix, measure.name, name),
              fmt::format("{}: {}", name, measure.caption), "learning rate", update_rate_names(),
              ways,
              {.digits = 3,
               .shown = kind.kind == DirectionKind::independent &&
                        &measure < kUpdateMeasures + kShownMeasures})
      .filled([&](size_t r, size_t c) {
        return Value{
            .found = column_of(step, ways[c])[r].*measure.of,
            .expected = has_figures ? specified_figure(measure.name, name, ways[c], r) : kNone};
      });
}

/// Which step precision_aware takes instead.
Grid alpha_grid(const Steps& steps, const Kind& kind) {
  return Grid(fmt::format("{}alpha_over_lr", kind.prefix),
              "α/lr: the step that precision_aware takes over the one asked for; 0 where no step "
              "is better than none",
              "learning rate", update_rate_names(), names_of(weight_formats()), {.digits = 3})
      .filled([&](size_t r, size_t f) { return steps[f].alpha[r]; });
}

// ---------------------------------------------------------------- pictures

/// A picture: a measure against the learning rate, a panel for each format.
struct Picture {
  const char* measure;
  const char* y_label;
  bool log_y;
  double low, high;
};
constexpr Picture kPictures[] = {{"rho", "‖Δ‖/‖Δ*‖", true, 1e-4, 1e6},
                                 {"pi", "projection", false, -0.1, 1.3},
                                 {"cosine", "cosine", false, 0, 1},
                                 {"changed", "share changed", true, 1e-7, 1}};

const UpdateMeasure& measure_of(std::string_view name) {
  return *std::find_if(std::begin(kUpdateMeasures), std::end(kUpdateMeasures),
                       [&](const UpdateMeasure& measure) { return measure.name == name; });
}

/// Learning rates ascend to the right. A draw of stochastic rounding that a few weights decide says
/// little: its line is the expectation.
Chart panel_of(const OneStep& step, size_t format, const Picture& picture) {
  Chart chart{.caption = std::string(weight_formats()[format].name),
              .x_label = "learning rate",
              .y_label = picture.y_label,
              .x = {kUpdateRates, kUpdateRates + kRates},
              .x_ticks = {1e-10, 1e-8, 1e-6, 1e-4, 1e-2},
              .log_x = true,
              .log_y = picture.log_y,
              .y_low = picture.low,
              .y_high = picture.high};
  std::reverse(chart.x.begin(), chart.x.end());
  for (const std::string& name : columns()) {
    if (name == "stochastic") continue;
    Series series{.name = name == kExpectation ? "stochastic (expectation)" : name,
                  .reference = name == "fp32"};
    for (const StepMetrics& metrics : column_of(step, name))
      series.y.push_back(metrics.*measure_of(picture.measure).of);
    std::reverse(series.y.begin(), series.y.end());
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::vector<Panels> pictures_of(const Steps& steps) {
  std::vector<Panels> all;
  for (const Picture& picture : kPictures) {
    Panels panels{.caption = measure_of(picture.measure).caption, .charts = {}};
    panels.caption += picture.log_y ? "; a line ends where nothing changes"
                                    : "; what lies beyond the picture is in the files";
    for (size_t f = 0; f < steps.size(); ++f)
      panels.charts.push_back(panel_of(steps[f], f, picture));
    all.push_back(std::move(panels));
  }
  return all;
}

// ---------------------------------------------------------------- sentences

constexpr size_t kBf16 = 3;

/// The largest learning rate at which fewer than half of the step is done, as text.
std::string stalls_at(const OneStep& step, std::string_view way) {
  const std::vector<StepMetrics>& rows = column_of(step, way);
  for (size_t r = 0; r < kRates; ++r)
    if (rows[r].pi < 0.5) return update_rate_names()[r];
  return "no learning rate of the table";
}

std::string stalls_text(const Steps& steps, std::string_view way) {
  Names parts;
  for (size_t f = 0; f < steps.size(); ++f)
    parts.push_back(fmt::format("{} ({})", stalls_at(steps[f], way), weight_formats()[f].name));
  return list_of(parts);
}

/// BF16 at 1e-6.
std::string rules_text(const Steps& steps) {
  const auto at = [&](std::string_view way) { return column_of(steps[kBf16], way)[5]; };
  const StepMetrics aware = at("precision_aware"), printed = at(kAsPrinted),
                    mean = at(kExpectation), residual = at("residual 8");
  const bool few_stand_for_all = aware.changed > 0 && aware.changed < 0.5;
  return fmt::format(
      "At 1e-6 in BF16 the step of precision_aware is {:.2f} times as long as was asked for, and "
      "its cosine to it is {:.3f}: {:.2g} of the weights move{}. Stochastic rounding has "
      "projection {:.3f} in expectation and {:.3g} times the length{}; with a residual of 8 bits "
      "it is {:.3f} and {:.3g} times. As source 000 prints its search, for squared norms, the step "
      "is {:.4g} times as long, with cosine {:.3f}.",
      aware.rho, aware.cosine, aware.changed,
      few_stand_for_all ? ", those whose step brings them first to a border of rounding, and "
                          "stand for all others"
                        : "",
      mean.pi, mean.rho, mean.rho > 1.5 * mean.pi ? ", all of the surplus noise" : "", residual.pi,
      residual.rho, printed.rho, printed.cosine);
}

/// Where u follows w, weights with one mantissa reach a border at one step.
std::string coincidence_text(const Steps& steps) {
  Names parts;
  for (const size_t rate : {2, 4}) {
    const StepMetrics& aware = column_of(steps[kBf16], "precision_aware")[rate];
    const double alpha = steps[kBf16].alpha[rate];
    parts.push_back(fmt::format("at {} it ", update_rate_names()[rate]) +
                    (alpha == 0 ? "moves nothing, since the shortest step is too long"
                                : fmt::format("steps {:.3g} times as far and moves {:.2g} of the "
                                              "weights, with cosine {:.2g}",
                                              alpha, aware.changed, aware.cosine)));
  }
  return fmt::format(
      "Weights with the same mantissa reach a border of rounding at the same step, or, where u was "
      "not rounded, at about the same: precision_aware has few lengths to choose from, and what "
      "moves first is what lies highest in its binade. In BF16 {}.",
      list_of(parts));
}

std::string heading_of(const UpdateSubject& subject, const Kind& kind) {
  if (subject.is_random || kind.kind != DirectionKind::independent) return kind.heading;
  return fmt::format("One step of {} along {}", subject.weights, subject.direction);
}

Section step_section(const UpdateSubject& subject, const Kind& kind, const Settings& settings,
                     Progress& progress) {
  Steps steps;
  for (const WeightFormat& format : weight_formats())
    steps.push_back(one_step(subject, format, kind.kind, settings, progress));
  const bool has_figures = subject.is_random && kind.kind == DirectionKind::independent;
  const Facts facts = {{"heading", heading_of(subject, kind)},
                       {"weights", subject.weights},
                       {"rows", subject.rows},
                       {"cols", subject.cols},
                       {"nearest", stalls_text(steps, "nearest")},
                       {"precision_aware", stalls_text(steps, "precision_aware")},
                       {"seen", kind.kind == DirectionKind::independent ? rules_text(steps)
                                                                        : coincidence_text(steps)}};
  Section section = section_of("update", "step", {}, facts);
  section.panels = pictures_of(steps);
  for (size_t f = 0; f < steps.size(); ++f)
    for (const UpdateMeasure& measure : kUpdateMeasures)
      section.grids.push_back(grid_of(steps[f], f, measure, kind, has_figures));
  section.grids.push_back(alpha_grid(steps, kind));
  return section;
}

Report update(const Settings& settings) {
  const UpdateSubject subject = update_subject(settings);
  Report report{.name = "update", .title = title_of("update"), .sections = {}};
  std::vector<Kind> kinds;
  // The user's tensor is what it is: it was rounded from nothing.
  for (const Kind& kind : kUpdateKinds)
    if (subject.is_random || kind.kind != DirectionKind::unrounded) kinds.push_back(kind);
  const size_t casts = kinds.size() * weight_formats().size() * update_ways().size();
  Progress progress(settings, static_cast<int64_t>(casts) + kTrajectorySteps);
  for (const Kind& kind : kinds)
    report.sections.push_back(step_section(subject, kind, settings, progress));
  report.sections.push_back(trajectory_section(subject, settings, progress));
  return report;
}

}  // namespace

extern const Study kUpdate;
const Study kUpdate{.name = "update",
                    .summary =
                        "small updates of weights in few bits: every rule, every learning "
                        "rate; also of a tensor of a file",
                    .run = update,
                    .of_run = false,
                    .of_tensor = true};

}  // namespace ng::study
