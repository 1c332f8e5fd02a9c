#include "train/dpo.h"

#include <vector>

#include "comm/agreement.h"

namespace ng {
namespace {

// Against the reference's losses; the policy's are yet to be known.
PreferenceLoss loss_of(const DpoSettings& settings, const Batch& batch, const Tensor& reference) {
  return {.losses = {},
          .reference = reference.view(),
          .mask = batch.mask,
          .length = batch.at.length,
          .beta = settings.beta,
          .label_smoothing = settings.label_smoothing};
}

}  // namespace

std::unique_ptr<Model> make_reference(Run& run, const Model& policy, const Recipe& recipe,
                                      const DpoSettings& settings) {
  ModelConfig whole = policy.config();
  whole.lora = {};
  return std::make_unique<Model>(run, whole, recipe.frozen(settings.reference_storage),
                                 RecomputePolicy::none, WeightGather::as_sent, &policy);
}

PreferenceMetrics metrics_of(const PreferenceSums& sums) {
  const auto mean = [&](double sum) { return sum / sums.pairs; };
  return {.margins = mean(sums.chosen_reward - sums.rejected_reward),
          .accuracies = mean(sums.accurate),
          .chosen_reward = mean(sums.chosen_reward),
          .rejected_reward = mean(sums.rejected_reward),
          .chosen_logp = mean(sums.chosen),
          .rejected_logp = mean(sums.rejected)};
}

Dpo::Dpo(Run& run, Model& policy, Model& reference, const DpoSettings& settings, int64_t micros)
    : run_(run), policy_(policy), reference_(reference), settings_(settings) {
  const auto count = static_cast<size_t>(micros + 1);
  sums_ = {run.persistent_values<PreferenceSums>("preferences", count), count};
}

void Dpo::start() { run_.execute(Clear{std::as_writable_bytes(sums_)}); }

// In the policy's numbers, but as in evaluation: nothing is drawn, counted or kept.
Tensor Dpo::reference_losses(const Batch& batch) {
  const EvaluationMode mode(run_);
  Tensor losses = run_.tensor(1, batch.tokens(), fp32_format());
  reference_.token_losses(run_, batch, losses);
  return losses;
}

void Dpo::train_batch(const Batch& batch, int64_t micro, double* loss, const PartDone& done) {
  const Tensor reference = reference_losses(batch);
  PreferenceLoss op = loss_of(settings_, batch, reference);
  op.loss = loss;
  op.sums = &sums_[static_cast<size_t>(micro)];
  const auto weigh = [this, &op](const View& losses, const View& weights) {
    op.losses = losses;
    op.weights = weights;
    run_.execute(op);
  };
  policy_.train_batch(run_, batch, weigh, done);
}

void Dpo::evaluate_batch(const Batch& batch, double* loss) {
  const EvaluationMode mode(run_);
  run_.execute(Clear{std::as_writable_bytes(sums_.last(1))});
  const Tensor reference = reference_losses(batch);
  const Tensor losses = run_.tensor(1, batch.tokens(), fp32_format());
  policy_.token_losses(run_, batch, losses);
  PreferenceLoss op = loss_of(settings_, batch, reference);
  op.losses = losses;
  op.loss = loss;
  op.sums = &sums_.back();
  run_.execute(op);
}

PreferenceSums Dpo::of_step() {
  const std::span<const PreferenceSums> micros = sums_.first(sums_.size() - 1);
  PreferenceSums sum;
  if (run_.comm().ranks() == 1) {  // a step takes no memory
    for (const PreferenceSums& of_micro : micros) sum += run_.read(&of_micro);
    return sum;
  }
  const std::vector<PreferenceSums> own = run_.read(micros);
  for (const PreferenceSums& of_micro : gathered(run_.comm(), std::span(own))) sum += of_micro;
  return sum;
}

PreferenceSums Dpo::of_evaluation() const { return run_.read(&sums_.back()); }

}  // namespace ng
