#include "tools/format_trial.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/workspace.h"
#include "format/codec.h"
#include "tools/tensor_matrix.h"

namespace ng {
namespace {

/// The rules that a format is tried with, its own first.
std::vector<ScaleRule> rules_of(const TrialJob& job) {
  std::vector<ScaleRule> rules = {job.cast.scale_rule};
  for (const ScaleRule rule : scale_rules(job.cast.scale))
    if (job.all_rules && rule != rules.front()) rules.push_back(rule);
  return rules;
}

/// Values of a cast with a prescale, which the product that reads them undoes.
void undo_prescale(std::span<float> values, float prescale) {
  if (prescale == 1.0f) return;
  for (float& value : values) value /= prescale;
}

/// A panel in one format, its memory used for all of them.
struct Rounded {
  NarrowMatrix narrow;
  std::vector<float> values;
};

/// One rule of a format while the tensor goes by.
struct Running {
  FormatTrial trial;
  NarrowEncoder encoder;
  ErrorSums sums;

  Running(cpu::Workspace& workspace, const FormatTrial& one, const TensorMatrix& of)
      : trial(one),
        encoder(workspace, {.cast = one.cast,
                            .options = {.along = of.along(), .key = {}},
                            .rows = of.rows(),
                            .cols = of.cols()}) {}

  void add(const Panel& panel, Rows<const float> values, Rounded& rounded, Threads threads) {
    encoder.encode(panel, values, rounded.narrow);
    rounded.values.resize(rounded.narrow.codes.size());
    const Rows<float> decoded{rounded.values.data(), panel.rows, panel.cols, panel.cols};
    dequantize(rounded.narrow, decoded, threads);
    undo_prescale(rounded.values, trial.cast.prescale);
    sums.add(error_sums(values, decoded, threads));
    trial.counts += rounded.narrow.counts;
    for (const float scale : rounded.narrow.scales) note_scale(scale * rounded.narrow.tensor_scale);
  }
  void note_scale(float scale) {
    // Blocks of zeros say nothing: their scale is the least of E8M0, or 1.
    const bool is_e8m0 = trial.cast.scale == ScaleKind::e8m0;
    if (std::isnan(scale)) trial.has_nan_scale = true;
    if (!(scale > 0) || scale == (is_e8m0 ? 0x1p-127f : 1.0f)) return;
    trial.low_scale = trial.has_scale ? std::min(trial.low_scale, scale) : scale;
    trial.high_scale = trial.has_scale ? std::max(trial.high_scale, scale) : scale;
    trial.has_scale = true;
  }
};

bool is_better(const FormatTrial& a, const FormatTrial& b) {
  return a.errors.sqnr_db > b.errors.sqnr_db ||
         (std::isnan(b.errors.sqnr_db) && !std::isnan(a.errors.sqnr_db));
}

}  // namespace

RuleTrials try_format(const io::SafetensorsEntry& entry, const TrialJob& job, Threads threads,
                      const TensorProgress& progress) {
  cpu::Workspace workspace(threads);
  const io::FloatReader reader(entry, io::FromF64::odd);
  const TensorMatrix matrix(entry, entry.shape.empty() ? -1 : job.axis);
  const Operand& cast = job.cast;
  std::vector<std::unique_ptr<Running>> runs;
  for (const ScaleRule rule : rules_of(job)) {
    FormatTrial trial;
    trial.name = job.name;
    trial.cast = cast;
    trial.cast.scale_rule = rule;
    trial.bits = stored_bits_per_value(cast, matrix.along(), matrix.rows(), matrix.cols());
    if (!scale_rules(cast.scale).empty()) trial.rule = name_of(rule);
    runs.push_back(std::make_unique<Running>(workspace, trial, matrix));
  }
  const NarrowEncoder& first = runs.front()->encoder;
  const std::vector<Panel> panels = first.panels();
  std::vector<float> values;
  Rounded rounded;
  const int passes = first.needs_range() ? 2 : 1;
  double done = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const bool notes = pass + 1 < passes;
    for (const Panel& panel : panels) {
      values.resize(static_cast<size_t>(panel.rows * panel.cols));
      matrix.read(reader, panel, values);
      const Rows<const float> source{values.data(), panel.rows, panel.cols, panel.cols};
      for (const auto& run : runs) {
        if (notes)
          run->encoder.note(panel, source);
        else
          run->add(panel, source, rounded, threads);
      }
      done += static_cast<double>(source.size());
      progress(done / passes / static_cast<double>(std::max<int64_t>(entry.elements(), 1)));
    }
  }
  RuleTrials trials;
  for (const auto& run : runs) {
    run->sums.add_saturated(run->trial.counts.saturated);
    run->trial.errors = run->sums.metrics();
    trials.push_back(run->trial);
  }
  return trials;
}

std::vector<FormatTrial> own_rules(const std::vector<RuleTrials>& trials) {
  std::vector<FormatTrial> own;
  for (const RuleTrials& rules : trials) own.push_back(rules.front());
  return own;
}

char binade_state(const FormatTrial& trial, int e) {
  const ElementFormat& element = *trial.cast.element;
  const double low = std::ldexp(1.0, e);
  if (trial.has_nan_scale && !trial.has_scale) return '?';
  const double scale = trial.low_scale, largest_scale = trial.high_scale;
  // A scale is a quotient, rounded: the largest value times it may lie an ulp below the tensor's.
  constexpr double kRoundedScale = 1 + 0x1p-22;
  if (low > max_value(element) * largest_scale * kRoundedScale) return '^';
  if (low >= min_normal(element) * largest_scale) return 'N';
  if (low >= min_normal(element) * scale) return 'n';
  if (2 * low > min_subnormal(element) / 2.0 * scale) return 's';
  return '0';
}

bool keeps_values(const FormatTrial& trial) {
  return trial.errors.underflow <= kMostUnderflow && trial.errors.saturation <= kMostSaturation;
}

const FormatTrial* cheapest(const std::vector<FormatTrial>& trials, double sqnr_db, bool keeping) {
  const FormatTrial* best = nullptr;
  for (const FormatTrial& trial : trials) {
    if (!(trial.errors.sqnr_db >= sqnr_db) || keeps_values(trial) != keeping) continue;
    if (best == nullptr || trial.bits < best->bits ||
        (trial.bits == best->bits && is_better(trial, *best)))
      best = &trial;
  }
  return best;
}

}  // namespace ng
