#include "train/run_model.h"

#include <vector>

#include "base/json.h"
#include "infer/generator.h"
#include "io/hf/folder.h"
#include "io/hf/peft_folder.h"
#include "model/adapters.h"

namespace ng {
namespace {

constexpr int64_t kSampleTokens = 300;
constexpr double kSampleTemperature = 0.5;  // low enough for a small model to spell words

void write_adapters(const std::string& folder, const RunConfig& config, const Run& run,
                    const Model& model, const io::HfWriteOptions& how) {
  std::vector<ParameterSpec> specs;
  size_t first = 0;  // they lie behind all others
  for (const Parameter& parameter : model.parameters())
    if (parameter.spec.is_adapter)
      specs.push_back(parameter.spec);
    else
      ++first;
  io::write_peft_folder(
      folder, {.model = model.config(), .adapters = specs, .base = config.model.init},
      [&](size_t index, int64_t row, std::span<float> values) {
        model.read_row(run, first + index, row, values);
      },
      how);
}

}  // namespace

Json model_identity(const ModelConfig& model) {
  Json identity = Json::parse(io::hf_config_text(model, "float32"));
  if (model.lora.is_used())
    identity["lora"] = {
        {"rank", model.lora.rank}, {"alpha", model.lora.alpha}, {"targets", model.lora.targets}};
  return identity;
}

void write_run_model(const std::string& folder, const RunConfig& config, const Run& run,
                     const Model& model, const Tokenizer& tokenizer) {
  const io::HfWriteOptions how{.dtype = config.train.save_dtype,
                               .tokenizer = &tokenizer,
                               .chat_template = jinja_of(config.data.chat)};
  if (model.config().lora.is_used() && config.lora.save == RunLora::Save::adapter)
    return write_adapters(folder, config, run, model, how);
  MergedWeights merged(run, model);
  io::write_hf_folder(
      folder, model.config(),
      [&](size_t index, int64_t row, std::span<float> values) {
        merged.read_row(index, row, values);
      },
      how);
}

std::string adapters_text(const Model& model) {
  if (!model.config().lora.is_used()) return "";
  int64_t trained = 0;
  for (const Parameter& parameter : model.parameters())
    if (!parameter.spec.is_frozen) trained += parameter.value().size();
  return fmt::format("{} of {} parameters are trained", trained, model.parameter_count());
}

std::string sample_text(Run& run, Model& model, const TrainingData& data,
                        const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens = data.sample_prompt(run.seed(), model.config().context);
  SamplingSettings sampling;
  sampling.temperature = kSampleTemperature;
  sampling.vocab = tokenizer.vocab();
  sampling.seed = run.seed();
  Generator generator(run, model, std::ssize(tokens) + kSampleTokens);
  generator.generate(std::vector<int32_t>(tokens), kSampleTokens, sampling, [&](int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokenizer.decode(tokens);
}

}  // namespace ng
