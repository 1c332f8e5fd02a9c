#include "base/output_file.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"

namespace ng {

void refuse_input(const std::string& out, const std::string& in, const std::string& key) {
  std::error_code unknown;
  if (!std::filesystem::equivalent(out, in, unknown) || unknown) return;
  throw Error({.place = out,
               .key = key,
               .problem = in == out ? "is the input" : fmt::format("is the same file as {}", in),
               .remedy = "another name for the output"});
}

void refuse_files_of(const std::string& folder, const std::string& out) {
  std::error_code unknown;
  std::filesystem::directory_iterator entry(folder, unknown);
  for (; !unknown && entry != std::filesystem::directory_iterator(); entry.increment(unknown))
    refuse_input(out, entry->path().string());
}

void require_target(const std::string& out, const std::string& what,
                    const std::function<bool(const std::string& path)>& is_own) {
  const auto refuse = [&](const std::string& problem) {
    throw Error({.place = out, .problem = problem, .remedy = "the name of a new file"});
  };
  if (is_folder(out)) refuse("is a folder");
  const std::string folder = std::filesystem::path(link_target(out)).parent_path().string();
  if (!folder.empty() && !is_folder(folder)) refuse(fmt::format("no folder {}", folder));
  if (is_file(out) && file_size(out) > 0 && !is_own(out))
    refuse(fmt::format("is there and not known as {}", what));
}

}  // namespace ng
