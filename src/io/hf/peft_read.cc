// Adapters that PEFT saved -> the weights of their base with them merged in.
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/peft_folder.h"
#include "io/safetensors.h"
#include "model/adapters.h"

namespace ng::io {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

/// Keys that would make of A and B another weight than W + scale·B·A, or another model.
constexpr std::string_view kUnsupported[] = {"use_dora",
                                             "use_qalora",
                                             "use_bdlora",
                                             "lora_bias",
                                             "modules_to_save",
                                             "layer_replication",
                                             "rank_pattern",
                                             "alpha_pattern",
                                             "arrow_config",
                                             "monteclora_config",
                                             "velora_config",
                                             "kasa_config",
                                             "alora_invocation_tokens",
                                             "trainable_token_indices"};

/// As if the key were not there: null, false, empty.
bool says_nothing(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

void refuse_unsupported(const JsonObject& config) {
  if (const std::string type = config.text("peft_type"); type != "LORA")
    config.refuse("peft_type", brief(Json(type)), "\"LORA\"");
  if (const std::string bias = config.text_or("bias", "none"); bias != "none")
    config.refuse("bias", brief(Json(bias)), "\"none\"");
  for (const std::string_view key : kUnsupported)
    if (config.has(key) && !says_nothing(config.at(key)))
      config.refuse(key, brief(config.at(key)) + " is not supported", "adapters A and B alone");
  if (!config.has("init_lora_weights")) return;
  const Json& init = config.at("init_lora_weights");  // others have changed the base's weights
  if (!init.is_boolean() && init != "gaussian" && init != "eva" && init != "orthogonal")
    config.refuse("init_lora_weights", brief(init) + " is not supported",
                  "adapters that were converted to go with the base as it is");
}

struct PeftConfig {
  std::string base;
  int64_t rank = 0;
  double scale = 0;  ///< of B·A
};

PeftConfig read_peft_config(const std::string& folder) {
  const std::string path = join_path(folder, kPeftConfig);
  const Json json = read_json_file(path, kMaxConfigBytes);
  const JsonObject config(json, path);
  refuse_unsupported(config);
  constexpr double kMostAlpha = 1e6;
  PeftConfig peft{.base = config.text("base_model_name_or_path"),
                  .rank = config.integer("r", 1, 1 << 16)};
  const double alpha = config.number("lora_alpha", 0, kMostAlpha);
  const auto rank = static_cast<double>(peft.rank);
  peft.scale = alpha / (config.boolean_or("use_rslora", false) ? std::sqrt(rank) : rank);
  constexpr const char* kBase = "base_model_name_or_path";
  if (!is_folder(peft.base))
    config.refuse(kBase, fmt::format("no folder {}", json_text(Json(peft.base))),
                  "the folder of the base model, as seen from here: no hub is asked");
  if (is_peft_folder(peft.base))
    config.refuse(kBase, fmt::format("{} holds adapters itself", json_text(Json(peft.base))),
                  "the folder of a whole model");
  return peft;
}

/// A and B of one matrix.
struct Adapter {
  const SafetensorsEntry *a = nullptr, *b = nullptr;
};

[[noreturn]] void refuse_unknown(const SafetensorsEntry& entry) {
  for (const char* module : {".embed_tokens.", ".lm_head.", ".wte.", ".wpe."})
    if (entry.name.find(module) != std::string::npos)
      entry.refuse("is of the embedding or the head", "adapters of linear layers of blocks alone");
  entry.refuse("is no adapter of the base", "lora_A and lora_B of linear layers of its blocks");
}

void check(const SafetensorsEntry& entry, const ParameterSpec& spec) {
  if (entry.shape != std::vector<int64_t>{spec.rows, spec.cols})
    entry.refuse("shape " + json_text(Json(entry.shape)),
                 fmt::format("[{},{}] by {} and the base", spec.rows, spec.cols, kPeftConfig));
  if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16")
    entry.refuse("dtype " + entry.dtype, "F32 BF16 or F16");
}

/// The weights of the base and what is added to them.
class PeftWeights {
 public:
  PeftWeights(const std::string& folder, const ModelConfig& config)
      : peft_(read_peft_config(folder)),
        base_(open_hf_weights(peft_.base, config)),
        file_(join_path(folder, kPeftWeights)) {
    match(config);
  }

  void read(size_t index, int64_t row, std::span<float> values) {
    base_(index, row, values);
    const auto found = adapters_.find(index);
    if (found == adapters_.end()) return;
    hold(index, found->second);
    const auto rank = static_cast<size_t>(peft_.rank);
    add_adapter(values, std::span(b_).subspan(static_cast<size_t>(row) * rank, rank), a_,
                peft_.scale);
  }

 private:
  /// Which tensors are of which parameter. Throws Error where one is missing, unknown or of another
  /// shape.
  void match(const ModelConfig& config) {
    const std::vector<ParameterSpec> table = parameter_table(config);
    ModelConfig all = config;
    all.lora = {.rank = peft_.rank, .targets = {"*"}};
    std::set<std::string> known;
    for (size_t index = 0; index < table.size(); ++index) {
      const std::vector<ParameterSpec> specs =
          adapter_parameters(all, std::span(table).subspan(index, 1));
      if (specs.empty()) continue;
      const Adapter adapter{file_.find(specs[0].hf_name), file_.find(specs[1].hf_name)};
      if (adapter.a == nullptr && adapter.b == nullptr) continue;
      check(require(adapter.a, specs[0]), specs[0]);
      check(require(adapter.b, specs[1]), specs[1]);
      known.insert({specs[0].hf_name, specs[1].hf_name});
      adapters_[index] = adapter;
    }
    for (const SafetensorsEntry& entry : file_.entries())
      if (!known.contains(entry.name)) refuse_unknown(entry);
    if (known.empty())
      throw Error({.place = file_.path(),
                   .key = "",
                   .problem = "holds no tensor",
                   .remedy = "adapters of the base's linear layers"});
  }

  [[nodiscard]] const SafetensorsEntry& require(const SafetensorsEntry* entry,
                                                const ParameterSpec& spec) const {
    if (entry != nullptr) return *entry;
    throw Error({.place = file_.path(),
                 .key = json_text(Json(spec.hf_name)),
                 .problem = "missing",
                 .remedy = "lora_A and lora_B of each layer"});
  }

  /// As long as rows of one parameter are asked for: its A and B.
  void hold(size_t index, const Adapter& adapter) {
    if (held_ == index) return;
    a_ = to_floats(*adapter.a);
    b_ = to_floats(*adapter.b);
    adapter.a->require_finite(a_);
    adapter.b->require_finite(b_);
    held_ = index;
  }

  PeftConfig peft_;
  ParameterReader base_;
  Safetensors file_;
  std::map<size_t, Adapter> adapters_;  // by the parameter that they are of
  size_t held_ = SIZE_MAX;              // the parameter whose A and B are here
  std::vector<float> a_, b_;
};

}  // namespace

bool is_peft_folder(const std::string& folder) {
  return is_folder(folder) && is_file(join_path(folder, kPeftConfig));
}

std::string peft_base(const std::string& folder) { return read_peft_config(folder).base; }

ParameterReader open_peft_weights(const std::string& folder, const ModelConfig& config) {
  const auto weights = std::make_shared<PeftWeights>(folder, config);
  return [weights](size_t index, int64_t row, std::span<float> values) {
    weights->read(index, row, values);
  };
}

}  // namespace ng::io
