#include "io/hf/peft_folder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "io/hf/shard.h"
#include "recipe/layer_names.h"

namespace ng::io {
namespace {

constexpr std::string_view kBefore = "base_model.model.";

/// "model.layers.3.self_attn.q_proj" of an A or B.
std::string module_of(const ParameterSpec& adapter) {
  const std::string_view name = adapter.hf_name;
  constexpr std::string_view kBehind = ".lora_A.weight";
  return std::string(name.substr(kBefore.size(), name.size() - kBefore.size() - kBehind.size()));
}

/// What tells a module apart in its block: GPT-2 has a c_proj in both halves.
std::string end_of(const std::string& module, Architecture architecture) {
  size_t dot = module.rfind('.');
  if (architecture == Architecture::gpt2) dot = module.rfind('.', dot - 1);
  return module.substr(dot + 1);
}

/// The layers with adapters and their modules, by the ends of these.
struct Adapted {
  std::string layer, module;
};
std::map<std::string, std::vector<Adapted>> adapted_by_end(const PeftModel& peft) {
  std::map<std::string, std::vector<Adapted>> by_end;
  for (const ParameterSpec& adapter : peft.adapters) {
    const std::string layer(layers::layer_of(adapter.name));
    if (adapter.name != layers::lora_a_of(layer)) continue;
    const std::string module = module_of(adapter);
    by_end[end_of(module, peft.model.architecture)].push_back({layer, module});
  }
  return by_end;
}

std::vector<std::string> target_modules(const PeftModel& peft) {
  std::vector<std::string> targets;
  for (const auto& [end, adapted] : adapted_by_end(peft)) {
    if (std::ssize(adapted) == peft.model.layers)
      targets.push_back(end);
    else
      for (const Adapted& one : adapted) targets.push_back(one.module);
  }
  return targets;
}

/// What modules have in place of `standard`.
OrderedJson pattern_of(const PeftModel& peft, const OrderedJson& standard,
                       const std::function<OrderedJson(const std::string& layer)>& value_of) {
  OrderedJson pattern = OrderedJson::object();
  for (const auto& [end, adapted] : adapted_by_end(peft)) {
    const OrderedJson first = value_of(adapted.front().layer);
    const bool is_same = std::all_of(adapted.begin(), adapted.end(), [&](const Adapted& one) {
      return value_of(one.layer) == first;
    });
    if (is_same && first != standard) pattern[end] = first;
    for (const Adapted& one : adapted)
      if (!is_same && value_of(one.layer) != standard) pattern[one.module] = value_of(one.layer);
  }
  return pattern;
}

bool is_tied_embedding(const PeftModel& peft, const ParameterSpec& spec) {
  return peft.model.tie_embeddings && layers::layer_of(spec.name) == layers::kEmbed;
}

/// The modules that were trained whole: a tied head with the embedding, which PEFT unties.
OrderedJson modules_to_save(const PeftModel& peft) {
  OrderedJson modules = OrderedJson::array();
  for (const ParameterSpec& spec : peft.modules) {
    const std::string module = spec.hf_name.substr(0, spec.hf_name.rfind('.'));
    if (modules.empty() || modules.back() != module) modules.push_back(module);
    if (is_tied_embedding(peft, spec)) modules.push_back("lm_head");
  }
  return modules.empty() ? OrderedJson(nullptr) : modules;
}

/// As people write it: 16, not 16.0.
OrderedJson number(double value) {
  if (value == std::floor(value)) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

std::string peft_config_text(const PeftModel& peft) {
  const Lora& lora = peft.model.lora;
  OrderedJson json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = peft.base;
  json["r"] = lora.rank;
  json["lora_alpha"] = number(lora.alpha);
  json["target_modules"] = target_modules(peft);
  json["lora_dropout"] = 0.0;
  json["bias"] = "none";
  json["fan_in_fan_out"] = peft.model.architecture == Architecture::gpt2;  // Conv1D
  json["init_lora_weights"] = true;
  json["use_rslora"] = lora.is_rank_stabilized;
  json["use_dora"] = false;
  json["modules_to_save"] = modules_to_save(peft);
  const OrderedJson ranks = pattern_of(
      peft, lora.rank, [&](const std::string& layer) { return OrderedJson(lora.rank_of(layer)); });
  const OrderedJson alphas = pattern_of(peft, number(lora.alpha), [&](const std::string& layer) {
    return number(lora.alpha_of(layer));
  });
  if (!ranks.empty()) json["rank_pattern"] = ranks;
  if (!alphas.empty()) json["alpha_pattern"] = alphas;
  json["inference_mode"] = true;
  return json_text(json, 2) + "\n";
}

void write_peft_folder(const std::string& folder, const PeftModel& peft,
                       const ParameterReader& read, const HfWriteOptions& options) {
  require_replaceable(folder);
  std::vector<HfTensor> tensors;
  int64_t index = 0;
  for (const ParameterSpec& adapter : peft.adapters)
    tensors.push_back({.spec = adapter, .parameter = index++});
  for (ParameterSpec spec : peft.modules) {
    const bool is_head_too = is_tied_embedding(peft, spec);
    spec.hf_name.insert(0, kBefore);
    tensors.push_back({.spec = spec, .parameter = index});
    spec.hf_name = fmt::format("{}lm_head.weight", kBefore);
    if (is_head_too) tensors.push_back({.spec = spec, .parameter = index});
    ++index;
  }
  FolderWriter writer(folder);
  const StoredDtype& dtype = stored_dtype(options.dtype);
  write_shard(join_path(writer.path(), kPeftWeights), plain_parts(tensors, dtype.name),
              plain_writer(tensors, read, dtype));
  write_file_atomically(join_path(writer.path(), kPeftConfig), peft_config_text(peft));
  save_tokenizer(writer.path(), options);
  publish_model(writer, folder);
}

}  // namespace ng::io
