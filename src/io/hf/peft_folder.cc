#include "io/hf/peft_folder.h"

#include <cmath>
#include <map>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "io/hf/shard.h"
#include "recipe/layer_names.h"

namespace ng::io {
namespace {

/// "model.layers.3.self_attn.q_proj" of an A or B.
std::string module_of(const ParameterSpec& adapter) {
  const std::string_view name = adapter.hf_name;
  constexpr std::string_view kBefore = "base_model.model.", kBehind = ".lora_A.weight";
  return std::string(name.substr(kBefore.size(), name.size() - kBefore.size() - kBehind.size()));
}

/// What tells a module apart in its block: GPT-2 has a c_proj in both halves.
std::string end_of(const std::string& module, Architecture architecture) {
  size_t dot = module.rfind('.');
  if (architecture == Architecture::gpt2) dot = module.rfind('.', dot - 1);
  return module.substr(dot + 1);
}

std::vector<std::string> target_modules(const PeftModel& peft) {
  std::map<std::string, std::vector<std::string>> by_end;
  for (const ParameterSpec& adapter : peft.adapters) {
    if (adapter.name != layers::lora_a_of(layers::layer_of(adapter.name))) continue;
    const std::string module = module_of(adapter);
    by_end[end_of(module, peft.model.architecture)].push_back(module);
  }
  std::vector<std::string> targets;
  for (const auto& [end, modules] : by_end) {
    if (std::ssize(modules) == peft.model.layers)
      targets.push_back(end);
    else
      targets.insert(targets.end(), modules.begin(), modules.end());
  }
  return targets;
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
  json["use_rslora"] = false;
  json["use_dora"] = false;
  json["modules_to_save"] = nullptr;
  json["inference_mode"] = true;
  return json_text(json, 2) + "\n";
}

void write_peft_folder(const std::string& folder, const PeftModel& peft,
                       const ParameterReader& read, const HfWriteOptions& options) {
  require_replaceable(folder);
  std::vector<HfTensor> tensors;
  for (const ParameterSpec& adapter : peft.adapters)
    tensors.push_back({.spec = adapter, .parameter = std::ssize(tensors)});
  FolderWriter writer(folder);
  const StoredDtype& dtype = stored_dtype(options.dtype);
  write_shard(join_path(writer.path(), kPeftWeights), plain_parts(tensors, dtype.name),
              plain_writer(tensors, read, dtype));
  write_file_atomically(join_path(writer.path(), kPeftConfig), peft_config_text(peft));
  save_tokenizer(writer.path(), options);
  writer.publish(Replace::always);
}

}  // namespace ng::io
