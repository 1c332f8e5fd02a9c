#include "io/hf/coded_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "io/hf/names.h"
#include "io/hf/weight_files.h"

namespace ng::io {
namespace {

/// "model-00002-of-00003.safetensors": the names of all of them; nothing of another name.
std::vector<std::string> names_of_parts(const std::string& name) {
  constexpr std::string_view kEnding = "-00000-of-00000.safetensors";
  if (name.size() < kEnding.size()) return {};
  const size_t begin = name.size() - kEnding.size();
  const std::string_view ending = std::string_view(name).substr(begin);
  const auto fits = [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; };
  if (!std::ranges::equal(ending, kEnding, fits)) return {};
  const int count = std::stoi(name.substr(begin + 10, 5));
  std::vector<std::string> names;
  for (int part = 1; part <= count; ++part)
    names.push_back(
        fmt::format("{}-{:05}-of-{:05}.safetensors", name.substr(0, begin), part, count));
  return names;
}

/// The files that a model lies in beside one of them: those of the index, else by their names.
std::set<std::string> other_files(const std::string& own, const std::string& folder) {
  std::set<std::string> names;
  for (const auto& [tensor, holder] : hf_weight_map(folder)) names.insert(holder);
  if (!names.contains(own)) {
    const std::vector<std::string> parts = names_of_parts(own);
    names = {parts.begin(), parts.end()};
  }
  names.erase(own);
  return names;
}

/// Any tensor of another file may hold the scales of this one's codes, whatever it is called.
void add_other_files(const Safetensors& file, const std::string& folder, StoredModel* model) {
  const std::string own = std::filesystem::path(file.path()).filename().string();
  std::set<std::string> known;
  for (const SafetensorsEntry& entry : file.entries()) known.insert(entry.name);
  for (const std::string& name : other_files(own, folder)) {
    const std::string path = join_path(folder, name);
    if (!is_file(path)) {
      model->missing_file = name;
      continue;
    }
    const Safetensors other(path);
    for (const SafetensorsEntry& entry : other.entries())
      if (known.insert(entry.name).second) model->beside.push_back(entry);
  }
}

}  // namespace

StoredModel stored_model_of(const Safetensors& file) {
  StoredModel model;
  model.tensors = file.entries();
  if (std::ranges::none_of(model.tensors, has_dtype_of_codes)) return model;
  model.unread = comfy_modules(file);
  const std::string folder = std::filesystem::path(file.path()).parent_path().string();
  try {
    model.is_folder = is_file(join_path(folder, kHfConfig));
    if (model.is_folder) model.layout = read_quantized_layout(folder);
    add_other_files(file, folder, &model);
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
