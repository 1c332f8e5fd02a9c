#include "speed/step_speed.h"

#include <chrono>
#include <numeric>

#include "base/median.h"
#include "speed/flops.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void require_shape(const ModelConfig& model, const BenchShape& shape) {
  if (shape.length > model.context)
    throw Error({.place = "--seq",
                 .key = "",
                 .problem = std::to_string(shape.length),
                 .remedy = fmt::format("at most the model's context, {}", model.context)});
  require_batch(model, {.sequences = shape.batch, .length = shape.length}, "--batch", "");
}

void fill_random_tokens(const BatchSpans& to, const BenchShape& shape, int64_t vocab, int64_t step,
                        int64_t first_sequence) {
  const RandomKey key{
      .seed = 1, .tensor = 0, .step = static_cast<uint32_t>(step), .purpose = Purpose::data};
  const auto id = [&](int64_t sequence, int64_t position) {
    const uint64_t r =
        random_bits(key, static_cast<uint64_t>(sequence), static_cast<uint64_t>(position),
                    static_cast<uint64_t>(shape.length + 1), 32);
    return static_cast<int32_t>(r * static_cast<uint64_t>(vocab) >> 32);
  };
  size_t i = 0;
  for (int64_t s = first_sequence; s < first_sequence + shape.batch; ++s)
    for (int64_t t = 0; t < shape.length; ++t, ++i) {
      to.inputs[i] = id(s, t);
      to.targets[i] = id(s, t + 1);
    }
}

double BenchResult::rest_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) - total_seconds(seconds_by_kind);
}

BenchResult bench_steps(Run& run, Model& model, const Recipe& recipe, const BenchShape& shape) {
  require_shape(model.config(), shape);
  Trainer trainer(run, model, recipe,
                  {.sequences = shape.batch, .length = shape.length, .micros = 1, .optimizer = {}});
  model.initialize(run);
  trainer.set_phase(shape.phase);
  BenchResult result;
  result.planned = trainer.memory();
  result.flops_per_token = flops_per_token(model, shape.length);
  for (int64_t step = 0; step < shape.warmup + shape.steps; ++step) {
    if (step == shape.warmup) run.reset_seconds();
    const Clock::time_point start = Clock::now();
    fill_random_tokens(trainer.train_tokens(0), shape, model.config().vocab, step,
                       trainer.first_micro() * shape.batch);
    const StepReport report = trainer.step(step, kBenchRate);
    if (step == 0) result.first_loss = report.loss;
    if (step < shape.warmup) continue;
    result.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    result.skipped += report.skipped ? 1 : 0;
    result.sent = report.sent;
    result.exchange.busy += report.exchange.busy;
    result.exchange.waited += report.exchange.waited;
  }
  result.seconds_by_kind = run.seconds();
  result.median_seconds = median(result.seconds);
  result.tokens_per_second = static_cast<double>(trainer.tokens_per_step()) / result.median_seconds;
  return result;
}

}  // namespace ng
