#include "tools/trace.h"

#include <vector>

#include "data/device_batch.h"
#include "run/transfer.h"
#include "tools/tensor_output.h"

namespace ng {
namespace {

[[noreturn]] void refuse(const io::Safetensors& file, const std::string& problem,
                         const std::string& remedy) {
  throw Error({file.path(), "tokens", problem, remedy});
}

/// The batches of a file, checked against the model.
struct TraceTokens {
  int64_t steps = 0, sequences = 0, length = 0;
  std::vector<int32_t> ids;  ///< (steps, sequences, length + 1)

  TraceTokens(const std::string& path, const ModelConfig& model, int64_t wanted_steps) {
    const io::Safetensors file(path);
    const io::SafetensorsEntry& entry = file.at("tokens");
    if (entry.shape.size() != 3 || entry.elements() == 0 || entry.shape[2] < 2)
      refuse(file, "no batches", "a tensor (steps, sequences, length + 1)");
    steps = wanted_steps > 0 ? wanted_steps : entry.shape[0];
    sequences = entry.shape[1];
    length = entry.shape[2] - 1;
    if (steps > entry.shape[0])
      refuse(file, fmt::format("{} steps", entry.shape[0]), fmt::format("at least {}", steps));
    if (length > model.context)
      refuse(file, fmt::format("sequences of {}", length),
             fmt::format("at most the model's context, {}", model.context));
    for (const int64_t id : io::to_integers(entry)) {
      if (id < 0 || id >= model.vocab)
        refuse(file, std::to_string(id), fmt::format("ids from 0 to {}", model.vocab - 1));
      ids.push_back(static_cast<int32_t>(id));
    }
  }

  void fill(int64_t step, const BatchSpans& to) const {
    size_t i = 0;
    for (int64_t s = 0; s < sequences; ++s)
      for (int64_t t = 0; t < length; ++t, ++i) {
        const auto at = static_cast<size_t>((step * sequences + s) * (length + 1) + t);
        to.inputs[i] = ids[at];
        to.targets[i] = ids[at + 1];
      }
  }
};

/// Adds a parameter-shaped matrix as Hugging Face stores it.
void add_matrix(OutputTensors& traced, const Backend& backend, const std::string& prefix,
                const ParameterSpec& spec, const ConstView& v) {
  const bool turned = spec.hf_transposed;
  std::vector<int64_t> shape = {turned ? v.cols : v.rows, turned ? v.rows : v.cols};
  if (spec.is_vector && spec.rows == 1) shape = {v.size()};
  std::vector<float>& out =
      traced.add(prefix + (spec.hf_name.empty() ? spec.name : spec.hf_name), std::move(shape));
  const std::vector<float> values = download(backend, v);
  out.resize(values.size());
  for (int64_t r = 0; r < v.rows; ++r)
    for (int64_t c = 0; c < v.cols; ++c)
      out[static_cast<size_t>(turned ? c * v.rows + r : r * v.cols + c)] =
          values[static_cast<size_t>(r * v.cols + c)];
}

// Logits in the numbers and with the draws of the first training step.
std::vector<float> first_logits(Run& run, Model& model, const TraceTokens& tokens) {
  std::vector<float> logits;
  DeviceBatch first(run, tokens.sequences * tokens.length, 1);
  tokens.fill(0, first.host(0));
  first.upload(run, 0, 1);
  const Batch batch{.inputs = first.inputs(0),
                    .targets = {},
                    .mask = {},
                    .at = {.sequences = tokens.sequences, .length = tokens.length, .first = 0},
                    .target_count = 0,
                    .cache = nullptr};
  const auto body = [&] {
    const Tensor y = model.logits(run, batch);
    if (!run.recording()) logits = download(run.backend(), y);
    model.forget_step();
  };
  run.set_moment({.step = 0, .micro = 0, .first_micro = 0, .micros = 1});
  run.set_saving(false);
  run.set_writes_statistics(false);
  const Program program = run.record(body);
  run.reserve({&program});
  run.replay(program, body);
  run.set_saving(true);
  run.set_writes_statistics(true);
  return logits;
}

StepSettings step_settings(const TraceTokens& tokens, const TraceSettings& settings) {
  return {.sequences = tokens.sequences,
          .length = tokens.length,
          .micros = 1,
          .optimizer = settings.optimizer,
          .clip = settings.clip};
}

}  // namespace

std::vector<int64_t> write_trace(Run& run, Model& model, const Recipe& recipe,
                                 const std::string& tokens_file, const std::string& out_file,
                                 const TraceSettings& settings) {
  const TraceTokens tokens(tokens_file, model.config(), settings.steps);
  Trainer trainer(run, model, recipe, step_settings(tokens, settings));
  OutputTensors traced;
  traced.add("logits", {tokens.sequences, tokens.length, model.config().vocab}) =
      first_logits(run, model, tokens);
  std::vector<float>& first_loss = traced.add("loss", {1});
  std::vector<float>& losses = traced.add("train.loss", {tokens.steps});
  std::vector<float>& norms = traced.add("train.grad_norm", {tokens.steps});
  trainer.set_gradient_observer([&] {
    for (const Parameter& p : model.parameters())
      if (!p.spec.is_frozen) add_matrix(traced, run.backend(), "grad.", p.spec, p.gradient());
  });
  std::vector<int64_t> skipped;
  for (int64_t step = 0; step < tokens.steps; ++step) {
    trainer.set_phase(
        recipe.phase_at(static_cast<double>(step) / static_cast<double>(tokens.steps)));
    tokens.fill(step, trainer.train_tokens(0));
    const StepReport report = trainer.step(step, static_cast<float>(settings.lr));
    losses.push_back(static_cast<float>(report.loss));
    norms.push_back(static_cast<float>(report.grad_norm));
    if (report.skipped) skipped.push_back(step + 1);
    trainer.set_gradient_observer({});
    const std::string prefix = fmt::format("step{}.", step + 1);
    for (const Parameter& p : model.parameters())
      add_matrix(traced, run.backend(), prefix, p.spec, p.value());
  }
  first_loss = {losses.front()};
  traced.write(out_file);
  return skipped;
}

}  // namespace ng
