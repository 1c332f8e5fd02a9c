#include "io/hf/peft_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/names.h"
#include "io/hf/peft_folder.h"
#include "recipe/layer_names.h"

namespace ng::io {
namespace {

constexpr std::string_view kBeforeNames = "base_model.model.";

/// How the name of a tensor of an adapter ends, and of which of the module's parameters it is.
struct AdapterPart {
  std::string_view end;
  const SafetensorsEntry* PeftChange::*of_change;
  std::string_view parameter;
  bool is_table = false;
};
constexpr AdapterPart kAdapterParts[] = {
    {".lora_A.weight", &PeftChange::a, ".weight"},
    {".lora_B.weight", &PeftChange::b, ".weight"},
    {".lora_B.bias", &PeftChange::added, ".bias"},
    {".lora_embedding_A", &PeftChange::a, ".weight", true},
    {".lora_embedding_B", &PeftChange::b, ".weight", true},
    {".lora_magnitude_vector", &PeftChange::magnitude, ".weight"},
    {".lora_magnitude_vector.weight", &PeftChange::magnitude, ".weight"}};

/// What may stand between a module that PEFT has wrapped and its own parameters.
constexpr std::string_view kWrappers[] = {".base_layer", ".modules_to_save.default",
                                          ".modules_to_save"};

std::string weights_path(const std::string& folder) {
  const std::string path = join_path(folder, kPeftWeights);
  const std::string pickle = join_path(folder, "adapter_model.bin");
  if (is_file(path) || !is_file(pickle)) return path;
  throw Error({.place = pickle,
               .key = "",
               .problem = "is a pickle, which may hold any program",
               .remedy = fmt::format("{}, as PEFT saves since 0.6", kPeftWeights)});
}

[[noreturn]] void refuse_unknown(const SafetensorsEntry& entry) {
  if (entry.name.ends_with(".lora_B.bias"))
    entry.refuse("is of a layer that has no bias in the base", "lora_bias where there are biases");
  entry.refuse("is nothing of the base",
               "adapters of its linear layers and embedding, and whole modules of it");
}

void require_shape(const SafetensorsEntry& entry, const std::vector<int64_t>& shape) {
  if (entry.shape != shape)
    entry.refuse("shape " + json_text(Json(entry.shape)),
                 fmt::format("{} by {} and the base", json_text(Json(shape)), kPeftConfig));
  if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16")
    entry.refuse("dtype " + entry.dtype, "F32 BF16 or F16");
}

/// "model.layers.0.mlp.up_proj" of its weight or bias.
std::string_view module_of_tensor(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

std::string hf_name_of(const ModelConfig& config, std::string_view layer) {
  for (const ParameterSpec& spec : parameter_table(config))
    if (spec.name == layers::weight_of(layer)) return spec.hf_name;
  return "lm_head.weight";  // a tied one has no row
}

bool is_table(const ParameterSpec& spec) {
  const std::string_view layer = layers::layer_of(spec.name);
  return layer == layers::kEmbed || layer == layers::kPos;
}

}  // namespace

PeftTensors::PeftTensors(const std::string& folder, const ModelConfig& base)
    : peft_(read_peft_config(folder)), file_(weights_path(folder)), config_(base) {
  require_modules();
  sort();
  settle_embedding_and_head();
  match();
}

const PeftChange* PeftTensors::change_of(size_t index) const {
  const auto found = changes_.find(index);
  return found == changes_.end() ? nullptr : &found->second;
}

// A name may be of many modules, or of none that holds a tensor: then nothing of it is saved.
void PeftTensors::require_modules() const {
  const std::vector<ParameterSpec> table = parameter_table(config_);
  for (const std::string& saved : peft_.saved_modules) {
    const auto is_meant = [&](const std::string& parameter) {
      return PeftConfig::means(saved, module_of_tensor(parameter));
    };
    if (is_meant(hf_name_of(config_, layers::kHead)) ||
        std::ranges::any_of(table, is_meant, &ParameterSpec::hf_name))
      continue;
    throw Error({.place = peft_.place,
                 .key = "modules_to_save",
                 .problem = fmt::format("{}: the base has no such module with weights",
                                        json_text(Json(saved))),
                 .remedy = "ends of names of its modules"});
  }
}

void PeftTensors::sort() {
  for (const SafetensorsEntry& entry : file_.entries()) take(entry);
  if (!found_.empty()) return;
  throw Error({.place = file_.path(),
               .key = "",
               .problem = "holds no tensor",
               .remedy = "adapters of the base's linear layers"});
}

void PeftTensors::take(const SafetensorsEntry& entry) {
  std::string_view name = entry.name;
  if (!name.starts_with(kBeforeNames)) refuse_unknown(entry);
  name.remove_prefix(kBeforeNames.size());
  if (is_known_buffer(name, config_.architecture)) return;  // of bias = "all"
  const auto part = std::find_if(std::begin(kAdapterParts), std::end(kAdapterParts),
                                 [&](const AdapterPart& p) { return name.ends_with(p.end); });
  const bool is_whole = part == std::end(kAdapterParts);
  const size_t dot = is_whole ? name.rfind('.') : name.size() - part->end.size();
  if (dot == std::string_view::npos) refuse_unknown(entry);
  std::string_view module = name.substr(0, dot);
  for (const std::string_view wrapper : kWrappers)
    if (is_whole && module.ends_with(wrapper)) module.remove_suffix(wrapper.size());
  const std::string_view end = is_whole ? name.substr(dot) : part->parameter;
  const std::string_view known = without_prefix(module, config_.architecture);
  Found& found = found_[fmt::format("{}{}", known, end)];
  const SafetensorsEntry*& place = found.change.*(is_whole ? &PeftChange::whole : part->of_change);
  if (place != nullptr) entry.refuse("is there twice", "keep one");
  place = &entry;
  if (found.first == nullptr) found.first = &entry;
  found.module = module;
  if (!is_whole) found.change.is_table |= part->is_table;
}

PeftTensors::Found* PeftTensors::find(const std::string& parameter) {
  const auto found = found_.find(without_prefix(parameter, config_.architecture));
  return found == found_.end() ? nullptr : &found->second;
}

// A tied head and the embedding are one tensor until an adapter is of one of them, or a copy that
// modules_to_save has made. [PEFT, tuners_utils.py, ensure_weight_tying]
void PeftTensors::share_or_untie(Found* embedding, Found* head) {
  const auto is_own = [&](const Found* found) {
    if (found == nullptr) return false;
    const PeftChange& change = found->change;
    return change.a != nullptr || change.b != nullptr ||
           (change.whole != nullptr && !peft_.keeps_ties && peft_.saves(found->module));
  };
  const auto whole = [](const Found* found) {
    return found == nullptr ? nullptr : found->change.whole;
  };
  const std::string of_embedding(
      without_prefix(hf_name_of(config_, layers::kEmbed), config_.architecture));
  const std::string of_head = hf_name_of(config_, layers::kHead);
  const bool is_one =
      peft_.keeps_ties || (!is_own(embedding) && !is_own(head)) ||
      (whole(embedding) != nullptr && whole(head) != nullptr && embedding->change.a == nullptr &&
       head->change.a == nullptr && are_same(*whole(embedding), *whole(head)));
  if (is_one) {
    if (head == nullptr) return;
    if (embedding == nullptr) found_[of_embedding] = *head;
    found_.erase(of_head);
    return;
  }
  config_.tie_embeddings = false;
  const auto copy_shared = [&](const Found* from, const std::string& to) {
    if (whole(from) == nullptr || peft_.saves(from->module)) return;
    Found& other = found_[to];
    if (other.first == nullptr)
      other = {.module = std::string(module_of_tensor(to)), .first = from->first};
    if (other.change.whole == nullptr) other.change.whole = from->change.whole;
  };
  copy_shared(embedding, of_head);
  copy_shared(head, of_embedding);
}

void PeftTensors::settle_embedding_and_head() {
  const std::string embed = hf_name_of(config_, layers::kEmbed);
  const std::string head = hf_name_of(config_, layers::kHead);
  if (config_.tie_embeddings) {
    const bool is_saved = find(head) != nullptr || (peft_.keeps_ties && find(embed) != nullptr);
    if (!is_saved) require_saved(head);  // no row of the table is its own
    share_or_untie(find(embed), find(head));
  }
  const auto rows_of = [&](const Found* found) {
    const bool has_rows = found != nullptr && found->change.whole != nullptr &&
                          found->change.whole->shape.size() == 2;
    return has_rows ? found->change.whole->shape[0] : config_.vocab;
  };
  const int64_t rows = rows_of(find(embed));
  const bool is_size = rows > 0 && rows <= kMaxModelSize;
  if (is_size && (config_.tie_embeddings || rows_of(find(head)) == rows)) config_.vocab = rows;
}

void PeftTensors::match() {
  const std::vector<ParameterSpec> table = parameter_table(config_);
  for (size_t index = 0; index < table.size(); ++index) {
    Found* found = find(table[index].hf_name);
    if (found == nullptr) {
      require_saved(table[index].hf_name);
      continue;
    }
    check(*found, table[index]);
    changes_[index] = found->change;
    found_.erase(std::string(without_prefix(table[index].hf_name, config_.architecture)));
  }
  if (!found_.empty()) refuse_unknown(*found_.begin()->second.first);
}

void PeftTensors::check(Found& found, const ParameterSpec& spec) const {
  PeftChange& change = found.change;
  if (change.whole != nullptr)
    require_shape(*change.whole, hf_shape(spec));
  else
    require_saved(spec.hf_name);
  change.rank = peft_.rank_of(found.module);
  change.alpha = peft_.alpha_of(found.module);
  change.scale = peft_.scale_of(found.module);
  if (change.added != nullptr) require_shape(*change.added, {spec.cols});
  if (change.a != nullptr || change.b != nullptr || change.magnitude != nullptr)
    check_adapter(found, spec);
}

void PeftTensors::check_adapter(const Found& found, const ParameterSpec& spec) const {
  const PeftChange& change = found.change;
  if (spec.is_vector || change.is_table != is_table(spec)) refuse_unknown(*found.first);
  require(change.a, found, change.is_table ? ".lora_embedding_A" : ".lora_A.weight");
  require(change.b, found, change.is_table ? ".lora_embedding_B" : ".lora_B.weight");
  const int64_t out = change.is_table ? spec.cols : spec.rows;
  require_shape(*change.a, {change.rank, change.is_table ? spec.rows : spec.cols});
  require_shape(*change.b, {out, change.rank});
  if (peft_.is_decomposed) {
    require(change.magnitude, found, ".lora_magnitude_vector");
    require_shape(*change.magnitude, {out});
  } else if (change.magnitude != nullptr) {
    change.magnitude->refuse("is of DoRA", fmt::format("\"use_dora\": true in {}", kPeftConfig));
  }
}

void PeftTensors::require(const SafetensorsEntry* entry, const Found& found,
                          std::string_view end) const {
  if (entry != nullptr) return;
  throw Error({.place = file_.path(),
               .key = json_text(Json(fmt::format("{}{}{}", kBeforeNames, found.module, end))),
               .problem = "missing",
               .remedy = "all tensors of each adapter"});
}

void PeftTensors::require_saved(const std::string& parameter) const {
  if (!peft_.saves(module_of_tensor(parameter))) return;
  throw Error({.place = file_.path(),
               .key = json_text(Json(fmt::format("{}{}", kBeforeNames, parameter))),
               .problem = "missing",
               .remedy = fmt::format("what modules_to_save in {} names", kPeftConfig)});
}

}  // namespace ng::io
