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

std::string recipe_beside(const std::string& recipe, const std::string& folder) {
  const bool is_path = recipe.ends_with(".toml") || recipe.find('/') != std::string::npos;
  const bool is_text = recipe.find('\n') != std::string::npos;
  if (folder.empty() || !is_path || is_text || recipe.starts_with('/')) return recipe;
  const std::string beside = join_path(folder, recipe);
  return is_there(beside) ? beside : recipe;
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
}

}  // namespace ng
