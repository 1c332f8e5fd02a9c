#include "train/run_paths.h"

#include <filesystem>

#include "base/files.h"
#include "base/toml.h"
#include "data/prepared_texts.h"
#include "data/text_files.h"

namespace ng {

std::string folder_of_file(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder == "." ? "" : folder;
}

std::string RunConfig::folder_of(std::string_view key) const {
  const auto found = given.find(key);
  return found != given.end() && found->second.order == 0 ? folder : "";
}

std::string RunConfig::tried(std::string_view key, const std::string& path) const {
  const std::string first = folder_of(key);
  if (first.empty() || path.starts_with('/')) return toml_quote(path);
  return toml_quote(join_path(first, path)) + " or " + toml_quote(path);
}

void take_paths_beside(RunConfig& config) {
  if (config.folder.empty()) return;
  const auto take = [&](std::string_view key, std::string& path) {
    if (config.folder_of(key).empty() || path.empty() || path.starts_with('/')) return;
    const std::string beside = join_path(config.folder, path);
    if (is_there(beside)) path = beside;
  };
  const auto take_texts = [&](std::string_view key, std::vector<std::string>& names) {
    for (std::string& name : names)
      if (!is_prepared_text(name)) take(key, name);
  };
  take_texts("data.train", config.data.train);
  take_texts("data.validation", config.data.validation_files);
  if (config.data.tokenizer != "bytes") take("data.tokenizer", config.data.tokenizer);
  take("model.init", config.model.init);
  take("lora.init", config.lora.init);
  const std::string& recipe = config.recipe;
  const bool is_path = recipe.ends_with(".toml") || recipe.find('/') != std::string::npos;
  if (is_path && recipe.find('\n') == std::string::npos) take("recipe", config.recipe);
}

}  // namespace ng
