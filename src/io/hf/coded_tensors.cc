#include "io/hf/coded_tensors.h"

#include <algorithm>
#include <utility>

#include "io/hf/expert_tensor.h"
#include "io/hf/scale_names.h"

namespace ng::io {
namespace {

constexpr std::string_view kPlainWeight = "weight";
constexpr const char* kMark = ".comfy_quant";
constexpr const char* kReadable = "the same weights in a layout of docs/interop.md, or in BF16";

/// Without the "[0:64]" of a part of a tensor, as checkpoints of several ranks have them.
std::string whole_name(const std::string& name) {
  return name.ends_with(']') ? name.substr(0, name.rfind('[')) : name;
}

bool is_matrix(const SafetensorsEntry& entry) { return entry.shape.size() >= 2; }

}  // namespace

bool has_dtype_of_codes(const SafetensorsEntry& entry) {
  constexpr std::string_view kIntegers[] = {"U8", "I8", "U16", "I16", "U32", "I32"};
  return is_narrow(entry) || std::ranges::find(kIntegers, entry.dtype) != std::end(kIntegers);
}

CodedTensors::CodedTensors(StoredModel model) : model_(std::move(model)) {
  for (const SafetensorsEntry& entry : model_.tensors) note(entry);
  for (const SafetensorsEntry& entry : model_.beside) note(entry);
  suspects_ = std::make_unique<const ScaleSuspects>(by_name_);
  for (const SafetensorsEntry& entry : model_.tensors) {
    look_at(entry);
    const bool is_weight = is_matrix(entry) && is_wide_float(entry) && !reads_as_scale(entry.name);
    if (is_weight && wide_matrix_ == nullptr) wide_matrix_ = &entry;
  }
}

void CodedTensors::note(const SafetensorsEntry& entry) {
  if (!by_name_.emplace(entry.name, &entry).second) entry.refuse("is there twice", "one of it");
  if (entry.name.ends_with(kMark)) add_comfy_module(entry, &model_.unread);
  if (!reads_as_scale(entry.name)) return;
  scales_.insert(entry.name);
  scales_of_module_.emplace(module_of_tensor(entry.name), entry.name);
}

void CodedTensors::look_at(const SafetensorsEntry& entry) {
  const FindEntry find = [this](const std::string& name) {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  };
  try {
    if (model_.layout.has_experts && holds_expert_codes(entry)) {
      const ExpertTensor experts(entry, find);
      parts_.insert(experts.scales());
      coded_.emplace(entry.name, Coded{experts.entry(), {}});
    } else if (const auto weight = find_quantized(entry, model_.layout, find)) {
      for (const std::string& part : weight->parts()) parts_.insert(part);
      coded_.emplace(entry.name, Coded{weight->entry(), {}});
    }
  } catch (const Error& error) {
    coded_.emplace(entry.name, Coded{entry, error});
  }
}

std::vector<std::string> CodedTensors::scales_behind(const std::string& weight) const {
  std::vector<std::string> names;
  for (auto at = scales_.lower_bound(weight); at != scales_.end() && at->starts_with(weight); ++at)
    if (at->find_first_of("_.[", weight.size()) == weight.size()) names.push_back(*at);
  return names;
}

std::vector<std::string> CodedTensors::scales_in_module_of(const std::string& weight) const {
  const std::string module(module_of_tensor(weight));
  std::vector<std::string> names;
  const auto [begin, end] = scales_of_module_.equal_range(module);
  for (auto at = begin; at != end; ++at) names.push_back(at->second);
  if (weight.substr(module.size()) != "." + std::string(kPlainWeight)) return names;
  for (const std::string& name : scales_behind(module))  // "q_proj_scale" beside "q_proj.weight"
    if (module_of_tensor(name) == module_of_tensor(module)) names.push_back(name);
  return names;
}

void CodedTensors::require_read(const SafetensorsEntry& entry, const std::string& weight) const {
  if (model_.unread_layout) throw Error(*model_.unread_layout);
  const std::string module(module_of_tensor(weight));
  if (const auto unread = model_.unread.find(module); unread != model_.unread.end())
    entry.refuse("is stored as ComfyUI's " + unread->second, kReadable);
  std::vector<std::string> names = scales_behind(weight);
  if (weight == module + "." + std::string(kPlainWeight))
    for (std::string& name : scales_in_module_of(weight)) names.push_back(std::move(name));
  for (const std::string& name : names)
    if (!parts_.contains(name) && !is_no_weight(name))
      entry.refuse(fmt::format("has {} beside it, which is not understood", name), kReadable);
  const auto is_known = [&](const std::string& name) {
    return parts_.contains(name) || is_no_weight(name) || coded_.contains(name);
  };
  if (const SafetensorsEntry* other = suspects_->of(entry, weight, is_known); other != nullptr)
    entry.refuse(fmt::format("has {} beside it, which is not understood", other->name), kReadable);
}

void CodedTensors::require_numbers(const SafetensorsEntry& entry) const {
  const auto refuse = [&](const std::string& why, const char* remedy) {
    entry.refuse(fmt::format("is codes of {} {}", entry.dtype, why), remedy);
  };
  if (!model_.missing_file.empty())
    refuse(fmt::format("in one of several files, and {} is missing", model_.missing_file),
           "all files of the model in one folder");
  if (model_.unread_layout) throw Error(*model_.unread_layout);
  if (is_quantized())
    refuse("among quantized weights, without a scale", "the model as it was written");
  if (model_.is_folder && is_matrix(entry) && wide_matrix_ != nullptr)
    refuse(fmt::format("without a scale, and {} is {}", wide_matrix_->name, wide_matrix_->dtype),
           "the model as it was written");
}

SafetensorsEntry CodedTensors::decoded(const SafetensorsEntry& entry) const {
  if (const auto found = coded_.find(entry.name); found != coded_.end()) {
    if (found->second.refusal) throw Error(*found->second.refusal);
    require_read(entry, found->second.weight.name);
    return found->second.weight;
  }
  const bool is_scale =
      is_part(entry.name) || reads_as_scale(entry.name) || is_no_weight(entry.name);
  if (is_scale || !has_dtype_of_codes(entry)) return entry;
  const std::string weight = weight_of_codes(whole_name(entry.name));
  std::vector<std::string> names = scales_behind(weight);
  if (names.empty()) names = scales_in_module_of(weight);
  if (names.empty())
    if (const SafetensorsEntry* suspect = suspects_->of(entry, weight, is_no_weight);
        suspect != nullptr)
      names.push_back(suspect->name);
  if (!names.empty())
    entry.refuse(fmt::format("is codes of {}, and {} beside it is not understood as their scales",
                             entry.dtype, names.front()),
                 kReadable);
  if (is_narrow(entry)) require_numbers(entry);
  return entry;
}

DecodedEntries decode_tensors(const CodedTensors& tensors) {
  std::set<std::string, std::less<>> names;
  for (const SafetensorsEntry& entry : tensors.stored()) names.insert(entry.name);
  DecodedEntries all;
  for (const SafetensorsEntry& entry : tensors.stored()) {
    if (tensors.is_part(entry.name)) continue;
    if (tensors.is_quantized() && !tensors.is_coded(entry.name) && is_no_weight(entry.name)) {
      all.left_out.push_back(entry.name);
      continue;
    }
    all.tensors.push_back(tensors.decoded(entry));
    const std::string& name = all.tensors.back().name;
    if (name != entry.name && names.contains(name))
      entry.refuse("stands for " + name + ", which is there too", "one of them");
  }
  return all;
}

std::vector<std::string> left_out_note(std::span<const std::string> names) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : names) ++counts[name.substr(name.rfind('.') + 1)];
  if (counts.empty()) return {};
  std::string list;
  for (const auto& [name, count] : counts)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, name);
  return {
      fmt::format("left out: {}: of activations or the KV cache, no part of the weights", list)};
}

}  // namespace ng::io
