#include "io/hf/peft_config.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "io/hf/peft_folder.h"

namespace ng::io {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;
constexpr int64_t kMostRank = 1 << 16;
constexpr double kMostAlpha = 1e6;

/// Keys that would make of A and B another weight, or another model.
constexpr std::string_view kUnsupported[] = {"layer_replication", "arrow_config",
                                             "monteclora_config", "velora_config",
                                             "kasa_config",       "alora_invocation_tokens",
                                             "target_parameters", "trainable_token_indices"};
/// Those of "use_..." that are read.
constexpr std::string_view kSupportedUses[] = {"use_dora", "use_rslora"};
/// First values that leave the base's weights as they are.
constexpr std::string_view kSupportedInits[] = {"gaussian", "eva", "orthogonal", "mica"};

bool is_one_of(std::string_view word, const auto& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// As if the key were not there: null, false, empty.
bool says_nothing(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

void refuse_unsupported(const JsonObject& config) {
  if (const std::string type = config.text("peft_type"); type != "LORA")
    config.refuse("peft_type", brief(Json(type)), "\"LORA\"");
  if (const std::string bias = config.text_or("bias", "none");
      bias != "none" && bias != "all" && bias != "lora_only")
    config.refuse("bias", brief(Json(bias)), "\"none\", \"all\" or \"lora_only\"");
  for (const auto& [key, value] : config.value().items()) {
    const bool is_use = key.starts_with("use_") && !is_one_of(key, kSupportedUses);
    if ((is_use || is_one_of(key, kUnsupported)) && !says_nothing(value))
      config.refuse(key, brief(value) + " is not supported",
                    "adapters A and B, of DoRA and rsLoRA too, and whole modules");
  }
  if (!config.has("init_lora_weights")) return;
  const Json& init = config.at("init_lora_weights");  // others have changed the base's weights
  const bool is_supported =
      init.is_boolean() ||
      (init.is_string() && is_one_of(init.get<std::string>(), kSupportedInits));
  if (!is_supported)
    config.refuse("init_lora_weights", brief(init) + " is not supported",
                  "adapters that were converted to go with the base as it is");
}

/// The patterns of a table, in the order of the file. `ordered` is the same document.
template <class Value>
std::vector<std::pair<NamePattern, Value>> patterns_of(const JsonObject& config,
                                                       const OrderedJson& ordered,
                                                       const std::string& key, auto value_of) {
  std::vector<std::pair<NamePattern, Value>> patterns;
  if (!config.has(key)) return patterns;
  const JsonObject table = config.object(key);
  for (const auto& [name, value] : ordered.at(key).items())
    patterns.emplace_back(  // [PEFT, utils/other.py, get_pattern_key]
        NamePattern(fmt::format("(.*\\.)?({})$", name), config.place(),
                    fmt::format("{}.{}", key, name)),
        value_of(table, name));
  return patterns;
}

std::vector<std::string> saved_modules_of(const JsonObject& config) {
  constexpr const char* kKey = "modules_to_save";
  std::vector<std::string> modules;
  if (!config.has(kKey)) return modules;
  const Json& names = config.at(kKey);
  const auto require = [&](bool is_right) {
    if (!is_right) config.refuse(kKey, brief(names), "a list of names of modules");
  };
  require(names.is_array());
  for (const Json& name : names) {
    require(name.is_string() && name != "");
    modules.push_back(name.get<std::string>());
  }
  return modules;
}

template <class Value>
Value first_match(std::string_view module,
                  const std::vector<std::pair<NamePattern, Value>>& patterns, Value otherwise) {
  for (const auto& [pattern, value] : patterns)
    if (pattern.matches(module)) return value;
  return otherwise;
}

}  // namespace

int64_t PeftConfig::rank_of(std::string_view module) const {
  return first_match(module, ranks, rank);
}

double PeftConfig::alpha_of(std::string_view module) const {
  return first_match(module, alphas, alpha);
}

double PeftConfig::scale_of(std::string_view module) const {
  const auto r = static_cast<double>(rank_of(module));
  return alpha_of(module) / (divides_by_root ? std::sqrt(r) : r);
}

// As PEFT has it, an end of a name need not begin where a part of it does: "norm" is of every
// norm. [PEFT, utils/other.py, _set_trainable]
bool PeftConfig::means(std::string_view saved, std::string_view module) {
  for (size_t end = module.size(); end != std::string_view::npos;
       end = module.rfind('.', end - 1)) {
    if (module.substr(0, end).ends_with(saved)) return true;
    if (end == 0) return false;
  }
  return false;
}

bool PeftConfig::saves(std::string_view module) const {
  return std::ranges::any_of(saved_modules,
                             [&](const std::string& saved) { return means(saved, module); });
}

PeftConfig read_peft_config(const std::string& folder) {
  const std::string path = join_path(folder, kPeftConfig);
  return parse_peft_config(read_file(path, kMaxConfigBytes), path);
}

PeftConfig parse_peft_config(const std::string& text, const std::string& place) {
  const Json json = parse_json(text, place);
  const JsonObject config(json, place);
  refuse_unsupported(config);
  const OrderedJson ordered = OrderedJson::parse(text);
  PeftConfig peft;
  peft.place = place;
  peft.base = config.text_or("base_model_name_or_path", "");
  peft.rank = config.integer("r", 1, kMostRank);
  peft.alpha = config.number("lora_alpha", 0, kMostAlpha);
  peft.ranks = patterns_of<int64_t>(config, ordered, "rank_pattern",
                                    [](const JsonObject& table, const std::string& name) {
                                      return table.integer(name, 1, kMostRank);
                                    });
  peft.alphas = patterns_of<double>(config, ordered, "alpha_pattern",
                                    [](const JsonObject& table, const std::string& name) {
                                      return table.number(name, 0, kMostAlpha);
                                    });
  peft.divides_by_root = config.boolean_or("use_rslora", false);
  peft.is_decomposed = config.boolean_or("use_dora", false);
  peft.has_biases = config.boolean_or("lora_bias", false);
  peft.keeps_ties = config.boolean_or("ensure_weight_tying", false);
  peft.saved_modules = saved_modules_of(config);
  if (peft.is_decomposed && peft.has_biases)
    config.refuse("lora_bias", "true with use_dora", "one of the two, as in PEFT");
  return peft;
}

}  // namespace ng::io
