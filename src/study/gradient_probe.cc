#include "study/gradient_probe.h"

#include <algorithm>

#include "base/error.h"
#include "recipe/layer_names.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "study/samples.h"
#include "train/run_inputs.h"

namespace ng::study {
namespace {

constexpr int64_t kSequences = 8;
constexpr int64_t kContext = 64;
constexpr uint32_t kTextStream = 64;

ModelConfig small_llama() {
  ModelConfig c;
  c.vocab = kTextVocabulary;
  c.layers = 2;
  c.heads = 2;
  c.kv_heads = 2;
  c.head_dim = 32;
  c.width = 64;
  c.ffn = 192;
  c.context = kContext;
  return c;
}

StepSettings step_settings(const ProbeTask& task) {
  StepSettings s;
  s.sequences = task.sequences;
  s.length = task.length == 0 ? task.model.context : task.length;
  s.masked = task.masked;
  s.document_mask = task.documents;
  return s;
}

}  // namespace

ProbeTask generated_task(uint64_t seed, int64_t batches) {
  const auto text = std::make_shared<const std::vector<int32_t>>(
      generated_text(stream(seed, kTextStream), batches * kSequences * (kContext + 1)));
  const auto fill = [text, batches](int64_t batch, const BatchSpans& to) {
    size_t i = 0;
    for (int64_t s = 0; s < kSequences; ++s)
      for (int64_t t = 0; t < kContext; ++t, ++i) {
        const int64_t sequence = batch % batches * kSequences + s;
        const auto at = static_cast<size_t>(sequence * (kContext + 1) + t);
        to.inputs[i] = (*text)[at];
        to.targets[i] = (*text)[at + 1];
      }
  };
  return {.model = small_llama(), .sequences = kSequences, .seed = seed, .fill = fill};
}

RunText text_of_run(const RunConfig& config) {
  const std::unique_ptr<Tokenizer> tokenizer = open_run_tokenizer(config);
  const auto corpus = std::make_shared<const Corpus>(open_run_corpus(config, *tokenizer));
  const ModelConfig model = run_model_config(config, *tokenizer);
  const int64_t length = run_length(config, model);
  require_run_length(*corpus, config, length);
  const auto fill = [corpus, length, seed = config.seed, count = config.train.batch](
                        int64_t step, int64_t micro, const BatchSpans& to) {
    corpus->train_batch(seed, static_cast<uint32_t>(step),
                        {.first = micro * count, .count = count, .context = length}, to);
  };
  return {.model = model, .length = length, .masked = corpus->has_mask(), .fill = fill};
}

GradientProbe::GradientProbe(const std::string& recipe, const ProbeTask& task, Threads threads)
    : recipe_(Recipe::load(recipe)),
      fill_(task.fill),
      run_(std::make_unique<Run>(make_backend("cpu", threads), task.seed)),
      model_(std::make_unique<Model>(*run_, task.model, recipe_, RecomputePolicy::none)),
      trainer_(std::make_unique<Trainer>(*run_, *model_, recipe_, step_settings(task))) {
  model_->initialize(*run_);
}

double GradientProbe::train(int64_t step, float lr) {
  fill_(step, trainer_->train_tokens(0));
  return trainer_->step(step, lr).loss;
}

bool GradientProbe::scales_by_history() const {
  for (const Linear* linear : model_->linears())
    for (size_t role = 0; role < kOperandRoles; ++role)
      if (linear->delayed(static_cast<OperandRole>(role)).history != nullptr) return true;
  return false;
}

void GradientProbe::copy_weights(const GradientProbe& from) {
  const std::span<Parameter> to = model_->parameters();
  const std::span<Parameter> source = from.model_->parameters();
  // What noise learns stands behind these, in recipes that have some.
  const size_t count = parameter_table(model_->config()).size();
  NG_CHECK(std::min(to.size(), source.size()) >= count, to.size(), source.size());
  for (size_t i = 0; i < count; ++i) {
    const View &y = to[i].value(), &x = source[i].value();
    NG_CHECK(same_shape(y, x), to[i].spec.name);
    std::vector<float> row(static_cast<size_t>(x.cols));
    for (int64_t r = 0; r < x.rows; ++r) {  // two runs have no memory in common
      download_row(from.run_->backend(), x, r, row);
      model_->write_row(*run_, i, r, row);
    }
  }
  model_->start_noise(*run_);
}

std::vector<const Parameter*> GradientProbe::block_matrices() const {
  std::vector<const Parameter*> matrices;
  for (const Parameter& p : model_->parameters())
    if (layers::place_of(p.spec.name).block >= 0 && !p.spec.is_vector) matrices.push_back(&p);
  return matrices;
}

std::vector<GradientProbe::Matrix> GradientProbe::matrices() const {
  std::vector<Matrix> all;
  for (const Parameter* p : block_matrices()) all.push_back({p->spec.name, p->value().size()});
  return all;
}

std::vector<float> GradientProbe::gradient(int64_t batch, int64_t draw) {
  std::vector<float> all;
  trainer_->set_gradient_observer([&] {
    for (const Parameter* p : block_matrices()) {
      const std::vector<float> values = download(run_->backend(), p->grad.view());
      all.insert(all.end(), values.begin(), values.end());
    }
  });
  fill_(batch, trainer_->train_tokens(0));
  loss_ = trainer_->step(draw, 0.0f).loss;  // a rate of 0 leaves every weight as it is
  trainer_->set_gradient_observer({});
  return all;
}

double GradientProbe::flushed(OperandRole role) const {
  OperandStats sum;
  const std::vector<OperandStats> stats = model_->read_stats(*run_);
  for (size_t i = 0; i + 1 < model_->linears().size(); ++i)  // the head is last
    sum += stats[i * kOperandRoles + static_cast<size_t>(role)];
  if (sum.values == 0) return 0;
  return static_cast<double>(sum.flushed) / static_cast<double>(sum.values);
}

}  // namespace ng::study
