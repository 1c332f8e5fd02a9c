#include "speed/advice.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFewTokens =
    8192;  // of a vocabulary: a head's time is in proportion from there on

/// Seconds that are left of a time.
class TimeLeft {
 public:
  explicit TimeLeft(double seconds) : seconds_(seconds) {}
  [[nodiscard]] bool is_over() const {
    return std::chrono::duration<double>(Clock::now() - start_).count() > seconds_;
  }

 private:
  Clock::time_point start_ = Clock::now();
  double seconds_;
};

/// Among products: what optimizers keep in four bits is not meant.
bool has_fp4_operand(const StepOutline& step) {
  const auto names = [](const StepOutline::Row& row, const char* word) {
    return row.key.kind.find(word) != std::string::npos;
  };
  return std::any_of(step.rows.begin(), step.rows.end(), [&](const StepOutline::Row& row) {
    const bool is_product = row.time == TimeKind::gemm_fprop || row.time == TimeKind::gemm_dgrad ||
                            row.time == TimeKind::gemm_wgrad;
    return is_product && (names(row, "fp4") || names(row, "int4") || names(row, "e2m1"));
  });
}

/// The same width with fewer blocks and, where `few_tokens`, a small head.
ModelConfig smaller(ModelConfig model, int64_t blocks, bool few_tokens) {
  model.layers = blocks;
  if (few_tokens) model.vocab = std::min(model.vocab, kFewTokens);
  return model;
}

/// The smallest model in whose steps all that `times` lacks of `whole` comes up.
ModelConfig smallest_with(const OperationTimes& times, const StepOutline& whole,
                          const Backend& backend, const ModelConfig& model, const Recipe& recipe,
                          const BenchShape& shape) {
  for (const bool few_tokens : {true, false})
    for (int64_t blocks = 1; blocks < model.layers; blocks *= 2) {
      const ModelConfig part = smaller(model, blocks, few_tokens);
      if (times.would_know(whole, outline_step(backend, part, recipe, shape))) return part;
    }
  return model;
}

/// Times what is lacking, while there is time. Whether all of the step is known then.
bool complete(OperationTimes& times, const StepOutline& whole, const ModelConfig& model,
              const Recipe& recipe, const AdviceSettings& settings, const TimeLeft& left) {
  if (times.knows(whole)) return true;
  if (left.is_over()) return false;
  std::unique_ptr<Backend> backend = settings.backend();
  const ModelConfig part = smallest_with(times, whole, *backend, model, recipe, settings.shape);
  times.measure(std::move(backend), part, recipe, settings.shape);
  return times.knows(whole);
}

Advice advice_on(OperationTimes& times, const Backend& backend, const ModelConfig& model,
                 const std::string& name, const AdviceSettings& settings, const TimeLeft& left) {
  Advice advice{.recipe = name, .problem = {}};
  const Recipe recipe = Recipe::load(name);
  try {
    const StepOutline whole = outline_step(backend, model, recipe, settings.shape);
    advice.bytes = whole.memory.total;
    advice.has_fp4 = has_fp4_operand(whole);
    advice.is_known = complete(times, whole, model, recipe, settings, left);
    if (!advice.is_known) return advice;
    advice.seconds = times.seconds(whole);
    advice.tokens_per_second = static_cast<double>(settings.shape.batch * settings.shape.length) /
                               total_seconds(advice.seconds);
  } catch (const Error& error) {
    advice.problem = error.what();
  } catch (const Unsupported& error) {
    advice.problem = error.what();
  }
  return advice;
}

/// The model at another width: one block, as many values a head, a small vocabulary.
ModelConfig at_width(ModelConfig model, int64_t width) {
  constexpr int64_t kWhole = 64;  // of what products are cut into
  const auto scaled = [&](int64_t size) { return size * width / model.width; };
  const int64_t queries = model.heads / model.kv_heads;  // that share a key
  model.layers = 1;
  model.vocab = std::min(model.vocab, kFewTokens);
  model.ffn = (scaled(model.ffn) + kWhole - 1) / kWhole * kWhole;
  model.heads = std::max<int64_t>(1, scaled(model.heads));
  model.kv_heads = model.heads % queries == 0 ? model.heads / queries : model.heads;
  model.width = model.heads * model.head_dim;
  return model;
}

}  // namespace

std::vector<Advice> advise(OperationTimes& times, const ModelConfig& model,
                           const std::vector<std::string>& recipes,
                           const AdviceSettings& settings) {
  const TimeLeft left(settings.seconds);
  const std::unique_ptr<Backend> backend = settings.backend();
  std::vector<Advice> all;
  for (const std::string& name : recipes) {
    all.push_back(advice_on(times, *backend, model, name, settings, left));
    settings.progress(std::ssize(all), std::ssize(recipes));
  }
  return all;
}

std::vector<WidthAdvice> advise_widths(OperationTimes& times, const ModelConfig& model,
                                       const std::string& wide, const std::string& narrow,
                                       AdviceSettings settings) {
  settings.shape.steps = 3;  // they are short
  const TimeLeft left(settings.seconds);
  const std::unique_ptr<Backend> backend = settings.backend();
  const Recipe recipes[] = {Recipe::load(wide), Recipe::load(narrow)};
  std::vector<WidthAdvice> widths;
  for (int64_t width = model.head_dim; width <= 2 * model.width; width *= 2) {
    const ModelConfig part = at_width(model, width);
    double seconds[2] = {};
    for (size_t i = 0; i < 2; ++i) {
      const StepOutline step = outline_step(*backend, part, recipes[i], settings.shape);
      if (!complete(times, step, part, recipes[i], settings, left)) return widths;
      seconds[i] = total_seconds(times.seconds(step));
    }
    widths.push_back({part.width, seconds[0], seconds[1]});
  }
  return widths;
}

int64_t pays_from(const std::vector<WidthAdvice>& widths) {
  int64_t from = 0;
  for (auto at = widths.rbegin(); at != widths.rend() && at->narrow_seconds < at->wide_seconds;
       ++at)
    from = at->width;
  return from;
}

}  // namespace ng
