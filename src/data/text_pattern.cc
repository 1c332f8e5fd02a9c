#include "data/text_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "base/file_calls.h"
#include "base/files.h"

namespace ng {
namespace {

/// Follows the parts of a pattern from folder to folder.
class PatternWalk {
 public:
  explicit PatternWalk(std::vector<std::string> parts) : parts_(std::move(parts)) {}

  /// What part `at` and those behind it mean in a folder; `inside`: the folders on the way here.
  void look(const std::string& folder, size_t at, const std::vector<std::string>& inside) {
    const std::string& part = parts_[at];
    const bool is_last = at + 1 == parts_.size();
    if (part == "**") return look_below(folder, at, inside);
    if (!is_pattern(part)) {
      const std::string path = join_path(folder, part);
      if (!is_last && is_folder(path)) return look(path, at + 1, inside);
      if (is_last && is_file(path)) found_.files.push_back(path);
      return;
    }
    if (!is_folder(listed(folder))) return;
    for (const std::string& name : list_folder(listed(folder))) {
      const std::string path = join_path(folder, name);
      const bool matches = is_match(part, name);
      if (is_folder(path)) {
        if (matches && !is_last) look(path, at + 1, inside);
      } else if (is_last) {
        (matches ? found_.files : found_.others).push_back(path);
      }
    }
  }

  [[nodiscard]] MatchedFiles take() {
    const auto sort = [](std::vector<std::string>& paths) {
      std::sort(paths.begin(), paths.end());  // by bytes, whatever the locale
      paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    };
    sort(found_.files);
    sort(found_.others);
    std::erase_if(found_.others, [&](const std::string& path) {
      return std::binary_search(found_.files.begin(), found_.files.end(), path) || !is_file(path);
    });
    return std::move(found_);
  }

 private:
  [[nodiscard]] static bool is_match(const std::string& part, const std::string& name) {
    return ::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0;
  }
  [[nodiscard]] static std::string listed(const std::string& folder) {
    return folder.empty() ? "." : folder;
  }

  void look_below(const std::string& folder, size_t at, std::vector<std::string> inside) {
    if (!is_folder(listed(folder))) return;
    std::error_code error;
    const std::string real = std::filesystem::canonical(listed(folder), error).string();
    if (error) fail_on(folder, "follow", error.value());
    if (std::find(inside.begin(), inside.end(), real) != inside.end()) return;
    inside.push_back(real);
    look(folder, at + 1, inside);
    for (const std::string& name : list_folder(listed(folder))) {
      const std::string path = join_path(folder, name);
      if (is_match("*", name) && is_folder(path)) look(path, at, inside);
    }
  }

  std::vector<std::string> parts_;
  MatchedFiles found_;
};

}  // namespace

bool is_pattern(std::string_view name) { return name.find_first_of("*?[") != std::string::npos; }

MatchedFiles files_of_pattern(const std::string& pattern) {
  std::vector<std::string> parts;
  std::string start;  // what needs no looking
  for (const std::filesystem::path& part : std::filesystem::path(pattern)) {
    const std::string text = part.string();
    if (text == "/")
      start = text;
    else if (!text.empty() && (text != "**" || parts.empty() || parts.back() != "**"))
      parts.push_back(text);
  }
  if (!parts.empty() && parts.back() == "**") parts.emplace_back("*");
  PatternWalk walk(std::move(parts));
  walk.look(start, 0, {});
  return walk.take();
}

MatchedFiles files_of_folder(const std::string& folder, const std::string& ending) {
  PatternWalk walk({"**", "*" + ending});
  walk.look(folder, 0, {});
  return walk.take();
}

}  // namespace ng
