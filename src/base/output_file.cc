#include "base/output_file.h"

#include <filesystem>

#include "base/error.h"

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

}  // namespace ng
