#include "train/run_model.h"

#include <vector>

#include "base/json.h"
#include "infer/generator.h"
#include "io/hf/folder.h"
#include "io/hf/peft_folder.h"
#include "io/model_settings.h"
#include "model/adapters.h"

namespace ng {
namespace {

constexpr int64_t kSampleTokens = 300;
constexpr double kSampleTemperature = 0.5;  // low enough for a small model to spell words

void write_adapters(const std::string& folder, const RunConfig& config, const Run& run,
                    const Model& model, const io::HfWriteOptions& how) {
  std::vector<ParameterSpec> adapters, modules;
  std::vector<size_t> of_adapters, places;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const ParameterSpec& spec = model.parameters()[i].spec;
    if (spec.is_frozen) continue;
    (spec.is_adapter ? adapters : modules).push_back(spec);
    (spec.is_adapter ? of_adapters : places).push_back(i);
  }
  places.insert(places.begin(), of_adapters.begin(), of_adapters.end());
  io::write_peft_folder(
      folder,
      {.model = model.config(),
       .adapters = adapters,
       .modules = modules,
       .base = config.model.init},
      [&](size_t index, int64_t row, std::span<float> values) {
        model.read_row(run, places[index], row, values);
      },
      how);
}

/// What is said of adapters; of what older programs did not know only where it is used.
Json lora_identity(const Lora& lora) {
  Json identity = {{"rank", lora.rank}, {"alpha", lora.alpha}, {"targets", lora.targets}};
  if (!lora.rank_pattern.empty()) identity["rank_pattern"] = lora.rank_pattern;
  if (!lora.alpha_pattern.empty()) identity["alpha_pattern"] = lora.alpha_pattern;
  if (lora.is_rank_stabilized) identity["rank_stabilized"] = true;
  if (!lora.modules.empty()) identity["modules_to_save"] = lora.modules;
  return identity;
}

}  // namespace

Json model_identity(const ModelConfig& model) {
  Json identity = Json::parse(io::hf_config_text(model, "float32"));
  if (model.lora.is_used()) identity["lora"] = lora_identity(model.lora);
  return identity;
}

std::vector<std::string> check_run_init(const RunConfig& config, const ModelConfig& model) {
  if (config.model.init.empty()) return {};
  return io::check_hf_weights(config.model.init, model);
}

std::shared_ptr<const io::ModelSettings> run_model_settings(const RunConfig& config,
                                                            const Tokenizer& tokenizer) {
  auto settings = std::make_shared<io::ModelSettings>();
  const std::string& init = config.model.init;
  if (init.empty()) return settings;
  *settings = io::read_model_settings(init);
  if (config.data.tokenizer != init) io::take_special_ids(special_ids(tokenizer), settings.get());
  return settings;
}

void write_run_model(const std::string& folder, const RunConfig& config, const Run& run,
                     const Model& model, const Tokenizer& tokenizer,
                     const io::ModelSettings* settings) {
  const io::HfWriteOptions how{.dtype = config.train.save_dtype,
                               .tokenizer = &tokenizer,
                               .chat_template = jinja_of(config.data.chat),
                               .settings = settings};
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
