#include "train/run_folder.h"

#include <filesystem>

#include "base/files.h"

namespace ng {
namespace {

std::string numbered(const std::string& run_file, int number) {
  const std::string stem = std::filesystem::path(run_file).stem().string();
  const std::string name = number == 1 ? stem : stem + "-" + std::to_string(number);
  return join_path("runs", name);
}

bool holds_a_run(const std::string& folder) { return is_file(join_path(folder, "run.toml")); }

// Folders 1 ... n hold runs; n.
int count_runs(const std::string& run_file) {
  int count = 0;
  while (holds_a_run(numbered(run_file, count + 1))) ++count;
  return count;
}

}  // namespace

std::string first_run_folder(const std::string& run_file) { return numbered(run_file, 1); }

std::string new_run_folder(const std::string& run_file) {
  return numbered(run_file, count_runs(run_file) + 1);
}

std::string newest_run_folder(const std::string& run_file) {
  return numbered(run_file, std::max(1, count_runs(run_file)));
}

}  // namespace ng
