#include "io/hf/coded_file.h"

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "io/hf/names.h"
#include "io/hf/scale_names.h"
#include "io/hf/weight_files.h"

namespace ng::io {
namespace {

/// Scales in the modules of a file's tensors that other files of the index hold.
std::vector<SafetensorsEntry> scales_elsewhere(const Safetensors& file, const std::string& folder) {
  const std::string own = std::filesystem::path(file.path()).filename().string();
  std::set<std::string_view> modules;
  for (const SafetensorsEntry& entry : file.entries())
    if (has_dtype_of_codes(entry)) modules.insert(module_of_tensor(entry.name));
  const std::map<std::string, std::string> holders = hf_weight_map(folder);
  const auto is_own = [&](const auto& holder) { return holder.second == own; };
  if (std::ranges::none_of(holders, is_own)) return {};
  std::map<std::string, std::vector<std::string>> wanted;  // by file
  for (const auto& [name, holder] : holders)
    if (holder != own && reads_as_scale(name) && modules.contains(module_of_tensor(name)))
      wanted[holder].push_back(name);
  std::vector<SafetensorsEntry> scales;
  for (const auto& [holder, names] : wanted) {
    const Safetensors other(join_path(folder, holder));
    for (const std::string& name : names)
      if (const SafetensorsEntry* entry = other.find(name); entry != nullptr && !file.find(name))
        scales.push_back(*entry);
  }
  return scales;
}

}  // namespace

StoredModel stored_model_of(const Safetensors& file) {
  StoredModel model;
  model.tensors = file.entries();
  if (std::ranges::none_of(model.tensors, has_dtype_of_codes)) return model;
  model.unread = comfy_modules(file);
  const std::string folder = std::filesystem::path(file.path()).parent_path().string();
  try {
    if (is_file(join_path(folder, kHfConfig))) model.layout = read_quantized_layout(folder);
    model.beside = scales_elsewhere(file, folder);
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    model.unread_layout = error;
  }
  return model;
}

Safetensors open_decoded(const std::string& path) {
  Safetensors file(path);
  const CodedTensors tensors(stored_model_of(file));
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const SafetensorsEntry& stored = file.entries()[i];
    SafetensorsEntry entry = stored;
    try {
      entry = tensors.decoded(stored);
      entry.name = stored.name;
    } catch (const Error& error) {
      entry.open_values = [error]() -> ReadValues { throw Error(error); };
    }
    if (entry.open_values) file.replace(i, std::move(entry));
  }
  return file;
}

}  // namespace ng::io
