#include "base/glob.h"

#include <filesystem>

#include "base/files.h"

namespace ng {
namespace {

/// What of a folder a part of a path stands for; a part without wildcards for itself.
std::vector<std::string> names_of(const std::string& folder, const std::string& part) {
  if (part.find_first_of("*?") == std::string::npos) return {part};
  std::vector<std::string> names;
  const std::string listed = folder.empty() ? "." : folder;
  if (!is_folder(listed)) return names;
  for (std::string& name : list_folder(listed))
    if (glob_matches(part, name) && (name[0] != '.' || part[0] == '.'))
      names.push_back(std::move(name));
  return names;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0;
  size_t star = std::string_view::npos;  // the last * seen; it stands for name[..resume) so far
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> matching_files(const std::string& pattern) {
  std::vector<std::string> paths = {""};
  for (const std::filesystem::path& part : std::filesystem::path(pattern)) {
    std::vector<std::string> longer;
    for (const std::string& path : paths)
      for (const std::string& name : names_of(path, part.string()))
        longer.push_back(join_path(path, name));
    paths = std::move(longer);
  }
  std::erase_if(paths, [](const std::string& path) { return !is_file(path); });
  return paths;
}

}  // namespace ng
