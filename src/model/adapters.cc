#include "model/adapters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/glob.h"
#include "model/architecture.h"
#include "recipe/layer_names.h"
#include "run/transfer.h"

namespace ng {
namespace {

bool means(const std::string& pattern, std::string_view layer) {
  const layers::Place place = layers::place_of(layer);
  return place.block >= 0 && (glob_matches(pattern, place.part) || glob_matches(pattern, layer));
}

/// Of the module of a linear layer, as PEFT names the model that it has inside.
std::string peft_name(const ParameterSpec& weight, std::string_view which) {
  const std::string module = weight.hf_name.substr(0, weight.hf_name.rfind('.'));
  return fmt::format("base_model.model.{}.{}.weight", module, which);
}

bool is_linear(const ParameterSpec& spec) {
  return !spec.is_vector && layers::place_of(spec.name).block >= 0;
}

}  // namespace

bool Lora::means(std::string_view layer) const {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& pattern) { return ng::means(pattern, layer); });
}

void validate_lora(const ModelConfig& config, std::string_view place, const std::string& key) {
  const std::vector<ParameterSpec> table = parameter_table(config);
  for (const std::string& pattern : config.lora.targets) {
    const bool is_met = std::any_of(table.begin(), table.end(), [&](const ParameterSpec& spec) {
      return is_linear(spec) && means(pattern, layers::layer_of(spec.name));
    });
    if (is_met) continue;
    throw Error(
        {.place = std::string(place),
         .key = key,
         .problem = fmt::format("\"{}\" means no linear layer of the model", pattern),
         .remedy = fmt::format("patterns of {}",
                               fmt::join(linears_of_block(parts_of(config.architecture)), " "))});
  }
}

std::vector<ParameterSpec> adapter_parameters(const ModelConfig& config,
                                              std::span<const ParameterSpec> table) {
  std::vector<ParameterSpec> adapters;
  if (!config.lora.is_used()) return adapters;
  for (const ParameterSpec& weight : table) {
    const std::string layer(layers::layer_of(weight.name));
    if (!is_linear(weight) || !config.lora.means(layer)) continue;
    adapters.push_back({.name = layers::lora_a_of(layer),
                        .hf_name = peft_name(weight, "lora_A"),
                        .rows = config.lora.rank,
                        .cols = weight.cols,
                        .init = Init::kaiming_uniform,
                        .is_adapter = true});
    adapters.push_back({.name = layers::lora_b_of(layer),
                        .hf_name = peft_name(weight, "lora_B"),
                        .rows = weight.rows,
                        .cols = config.lora.rank,
                        .init = Init::zeros,
                        .is_adapter = true});
  }
  return adapters;
}

// [torch.nn.init.kaiming_uniform_: bound = √(6 / ((1 + a²)·in)]
std::vector<float> first_adapter_values(const ParameterSpec& spec, uint64_t seed, uint32_t tensor) {
  const RandomKey key{.seed = seed, .tensor = tensor};
  const double bound = 1 / std::sqrt(static_cast<double>(spec.cols));
  std::vector<float> values(static_cast<size_t>(spec.rows * spec.cols));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t drawn = draw(key, i / 4)[i % 4];
    const double share = (static_cast<double>(drawn) + 0.5) * 0x1p-32;  // within (0, 1)
    values[i] = static_cast<float>((2 * share - 1) * bound);
  }
  return values;
}

void add_adapter(std::span<float> row, std::span<const float> b, std::span<const float> a,
                 double scale) {
  NG_CHECK(a.size() == b.size() * row.size(), a.size(), b.size(), row.size());
  for (size_t c = 0; c < row.size(); ++c) {
    double sum = 0;
    for (size_t k = 0; k < b.size(); ++k) sum += static_cast<double>(b[k]) * a[k * row.size() + c];
    row[c] = static_cast<float>(row[c] + scale * sum);
  }
}

MergedWeights::MergedWeights(const Run& run, const Model& model) : run_(run), model_(model) {}

void MergedWeights::take_adapter(size_t index) {
  index_ = index;
  a_.clear();
  b_.clear();
  const std::span<const Parameter> all = model_.parameters();
  const std::string layer(layers::layer_of(all[index].spec.name));
  if (!is_linear(all[index].spec)) return;
  for (const Parameter& parameter : all) {
    if (parameter.spec.name == layers::lora_a_of(layer))
      a_ = download(run_.backend(), parameter.value());
    if (parameter.spec.name == layers::lora_b_of(layer))
      b_ = download(run_.backend(), parameter.value());
  }
}

void MergedWeights::read_row(size_t index, int64_t row, std::span<float> values) {
  model_.read_row(run_, index, row, values);
  if (index_ != index) take_adapter(index);
  if (a_.empty()) return;
  const auto rank = static_cast<size_t>(model_.config().lora.rank);
  add_adapter(values, std::span(b_).subspan(static_cast<size_t>(row) * rank, rank), a_,
              model_.config().lora.scale());
}

}  // namespace ng
