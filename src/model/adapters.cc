#include "model/adapters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/glob.h"
#include "model/architecture.h"
#include "recipe/layer_names.h"
#include "recipe/matches.h"
#include "run/transfer.h"

namespace ng {
namespace {

bool means(std::string_view pattern, std::string_view layer) {
  const layers::Place place = layers::place_of(layer);
  return glob_matches(pattern, layer) || (place.block >= 0 && glob_matches(pattern, place.part));
}

bool mean(const std::vector<std::string>& patterns, std::string_view layer) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return means(pattern, layer); });
}

template <class Value>
Value value_of(std::string_view layer, const ByPattern<Value>& patterns, Value otherwise) {
  int64_t most = -1;
  for (const auto& [pattern, value] : patterns) {
    const int64_t said =
        std::count_if(pattern.begin(), pattern.end(), [](char c) { return c != '*' && c != '?'; });
    if (said <= most || !means(pattern, layer)) continue;
    most = said;
    otherwise = value;
  }
  return otherwise;
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
  const layers::Place place = layers::place_of(layer);
  const auto& linears = layers::kLinearsOfBlocks;
  return place.block >= 0 &&
         std::find(linears.begin(), linears.end(), place.part) != linears.end() &&
         mean(targets, layer);
}

bool Lora::trains(std::string_view layer) const { return !means(layer) && mean(modules, layer); }

int64_t Lora::rank_of(std::string_view layer) const { return value_of(layer, rank_pattern, rank); }

double Lora::alpha_of(std::string_view layer) const {
  return value_of(layer, alpha_pattern, alpha);
}

float Lora::scale_of(std::string_view layer) const {
  const auto r = static_cast<double>(rank_of(layer));
  return static_cast<float>(alpha_of(layer) / (is_rank_stabilized ? std::sqrt(r) : r));
}

namespace {

template <class Value>
std::vector<std::string> patterns_of(const ByPattern<Value>& values) {
  std::vector<std::string> patterns;
  for (const auto& [pattern, value] : values) patterns.push_back(pattern);
  return patterns;
}

/// Patterns of one key and the layers of which each has to mean one.
struct LoraPatterns {
  std::string key;
  std::vector<std::string> patterns;
  const ModelLayers& of;
  std::string what;
};

void require_met(const LoraPatterns& patterns, const std::string& place) {
  for (const std::string& pattern : patterns.patterns) {
    const std::vector<std::string>& layers = patterns.of.names;
    const bool is_met = std::any_of(layers.begin(), layers.end(), [&](const std::string& layer) {
      return means(pattern, layer);
    });
    if (is_met) continue;
    throw Error({.place = place,
                 .key = patterns.key,
                 .problem = fmt::format("\"{}\" means no {}", pattern, patterns.what),
                 .remedy = near_pattern(pattern, patterns.of)});
  }
}

}  // namespace

void validate_lora(const ModelConfig& config,
                   const std::function<std::string(const std::string& key)>& place) {
  const Lora& lora = config.lora;
  ModelLayers linears{.names = {}, .depth = config.layers}, adapted = linears, others = linears;
  for (const ParameterSpec& spec : parameter_table(config)) {
    const std::string layer(layers::layer_of(spec.name));
    if (is_linear(spec)) linears.names.push_back(layer);
    if (spec.name == layers::weight_of(layer))
      (lora.means(layer) ? adapted : others).names.push_back(layer);
  }
  const std::string has_adapter = "layer with an adapter";
  for (const LoraPatterns& patterns :
       {LoraPatterns{"lora.targets", lora.targets, linears, "linear layer of the model"},
        LoraPatterns{"lora.rank_pattern", patterns_of(lora.rank_pattern), adapted, has_adapter},
        LoraPatterns{"lora.alpha_pattern", patterns_of(lora.alpha_pattern), adapted, has_adapter},
        LoraPatterns{"lora.modules_to_save", lora.modules, others, "layer without an adapter"}})
    require_met(patterns, place(patterns.key));
  if (lora.trains(layers::kPos) && !lora.trains(layers::kEmbed))
    throw Error({.place = place("lora.modules_to_save"),
                 .key = "lora.modules_to_save",
                 .problem = "\"pos\" without \"embed\"",
                 .remedy = "both, or \"embed\" alone"});
}

std::vector<ParameterSpec> adapter_parameters(const ModelConfig& config,
                                              std::span<const ParameterSpec> table) {
  std::vector<ParameterSpec> adapters;
  if (!config.lora.is_used()) return adapters;
  for (const ParameterSpec& weight : table) {
    const std::string layer(layers::layer_of(weight.name));
    if (!is_linear(weight) || !config.lora.means(layer)) continue;
    const int64_t rank = config.lora.rank_of(layer);
    adapters.push_back({.name = layers::lora_a_of(layer),
                        .hf_name = peft_name(weight, "lora_A"),
                        .rows = rank,
                        .cols = weight.cols,
                        .init = Init::kaiming_uniform,
                        .is_adapter = true});
    adapters.push_back({.name = layers::lora_b_of(layer),
                        .hf_name = peft_name(weight, "lora_B"),
                        .rows = weight.rows,
                        .cols = rank,
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

std::vector<double> adapted_row(std::span<const float> row, std::span<const float> b,
                                std::span<const float> a, double scale) {
  NG_CHECK(a.size() == b.size() * row.size(), a.size(), b.size(), row.size());
  std::vector<double> sums(row.size());
  for (size_t k = 0; k < b.size(); ++k)
    for (size_t c = 0; c < row.size(); ++c)
      sums[c] += static_cast<double>(b[k]) * a[k * row.size() + c];
  for (size_t c = 0; c < row.size(); ++c) sums[c] = row[c] + scale * sums[c];
  return sums;
}

void add_adapter(std::span<float> row, std::span<const float> b, std::span<const float> a,
                 double scale) {
  const std::vector<double> sums = adapted_row(row, b, a, scale);
  std::transform(sums.begin(), sums.end(), row.begin(),
                 [](double sum) { return static_cast<float>(sum); });
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
  const size_t rank = a_.size() / values.size();
  const std::string_view layer = layers::layer_of(model_.parameters()[index].spec.name);
  add_adapter(values, std::span(b_).subspan(static_cast<size_t>(row) * rank, rank), a_,
              model_.config().lora.scale_of(layer));
}

}  // namespace ng
