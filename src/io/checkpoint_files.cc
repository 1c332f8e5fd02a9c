#include "io/checkpoint_files.h"

#include <algorithm>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/json.h"

namespace ng::io {
namespace {

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kFolderPrefix = "step-";
constexpr size_t kStepDigits = 8;
constexpr int64_t kSteps = 100'000'000;  // what the digits can tell apart
constexpr size_t kMaxManifestBytes = 1 << 20;
constexpr std::string_view kSchema = "narrowgauge-checkpoint-1";

std::string checkpoint_path(const std::string& folder, int64_t step) {
  NG_CHECK(step >= 0 && step < kSteps, step);
  return join_path(folder, fmt::format("{}{:0{}}", kFolderPrefix, step, kStepDigits));
}

/// The step in "step-00000012"; none for any other name.
std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kFolderPrefix)) return std::nullopt;
  const std::string digits(name.substr(kFolderPrefix.size()));
  if (digits.size() != kStepDigits) return std::nullopt;
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(digits);
}

[[noreturn]] void damaged(const std::string& path, const std::string& problem) {
  throw Error({.place = path,
               .key = "",
               .problem = problem,
               .remedy = "the checkpoint is damaged: use another one"});
}

/// Whether there is a checkpoint, whole or damaged: what else has its name is somebody else's.
bool holds_checkpoint(const std::string& path) { return is_file(join_path(path, kManifest)); }

/// Compares one file with its line of the manifest.
void verify_file(const std::string& path, const JsonObject& line) {
  if (!is_file(path)) damaged(path, "missing");
  const MappedFile file(path);
  const int64_t size = line.integer("bytes", 0, INT64_MAX);
  if (static_cast<int64_t>(file.bytes().size()) != size)
    damaged(path, fmt::format("has {} bytes instead of {}", file.bytes().size(), size));
  if (checksum_of(file.bytes()) != line.text("xxh3_128"))
    damaged(path, "its checksum differs from the manifest's");
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& folder, int64_t step)
    : step_(step), final_path_(checkpoint_path(folder, step)), writer_(final_path_) {}

std::string CheckpointWriter::path_of(std::string_view name) const {
  NG_CHECK(!name.empty() && name.find('/') == std::string_view::npos && name != kManifest, name);
  return join_path(writer_.path(), name);
}

void CheckpointWriter::write_text(std::string_view name, std::string_view content) {
  write_file_atomically(path_of(name), content);
}

std::string CheckpointWriter::publish() {
  Json files = Json::object();
  for (const std::string& name : list_folder(writer_.path())) {
    const MappedFile file(path_of(name));
    files[name] = {{"bytes", file.bytes().size()}, {"xxh3_128", checksum_of(file.bytes())}};
  }
  const Json manifest = {{"schema", kSchema}, {"step", step_}, {"files", files}};
  write_file_atomically(join_path(writer_.path(), kManifest), json_text(manifest, 1) + "\n");
  if (is_folder(final_path_) && !holds_checkpoint(final_path_))
    set_aside({.step = step_, .path = final_path_});
  writer_.publish(Replace::always);
  return final_path_;
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointEntry> checkpoints;
  if (!is_folder(folder)) return checkpoints;
  for (const std::string& name : list_folder(folder)) {
    const std::optional<int64_t> step = step_of(name);
    if (step) checkpoints.push_back({.step = *step, .path = join_path(folder, name)});
  }
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step > b.step; });
  return checkpoints;
}

void verify_checkpoint(const CheckpointEntry& checkpoint) {
  const std::string place = join_path(checkpoint.path, kManifest);
  if (!is_file(place)) damaged(place, "missing");
  const Json json = read_json_file(place, kMaxManifestBytes);
  const JsonObject manifest(json, place);
  if (manifest.text("schema") != kSchema)
    manifest.refuse("schema", brief(manifest.at("schema")), std::string(kSchema));
  (void)manifest.integer("step", checkpoint.step, checkpoint.step);
  const JsonObject files = manifest.object("files");
  if (files.value().empty()) damaged(place, "names no files");
  for (const auto& [name, line] : files.value().items()) {
    if (name.empty() || name.find('/') != std::string::npos)
      files.refuse(name, "not a file name", "");
    verify_file(join_path(checkpoint.path, name), files.object(name));
  }
  for (const std::string& name : list_folder(checkpoint.path)) {
    if (name != kManifest && !files.has(name))
      damaged(join_path(checkpoint.path, name), "is not in the manifest");
  }
}

std::optional<CheckpointEntry> newest_whole_checkpoint(
    const std::string& folder, const std::function<void(const std::string& why)>& damaged,
    int64_t most) {
  for (const CheckpointEntry& checkpoint : list_checkpoints(folder)) {
    if (checkpoint.step > most) continue;
    try {
      verify_checkpoint(checkpoint);
      return checkpoint;
    } catch (const SystemError&) {
      throw;
    } catch (const Error& error) {
      damaged(error.what());
    }
  }
  return std::nullopt;
}

void set_aside(const CheckpointEntry& checkpoint) {
  move_path(checkpoint.path, checkpoint.path + ".damaged");
}

void set_later_aside(const std::string& folder, int64_t step) {
  for (const CheckpointEntry& checkpoint : list_checkpoints(folder))
    if (checkpoint.step > step) set_aside(checkpoint);
}

void prune_checkpoints(const std::string& folder, int keep) {
  NG_CHECK(keep >= 1, keep);
  if (!is_folder(folder)) return;
  remove_stale_temporaries(folder, [](std::string_view name) { return step_of(name).has_value(); });
  std::vector<CheckpointEntry> checkpoints = list_checkpoints(folder);
  std::erase_if(checkpoints, [](const CheckpointEntry& c) {  // a link is no work of the program's
    return link_target(c.path) != c.path || !holds_checkpoint(c.path);
  });
  for (size_t i = static_cast<size_t>(keep); i < checkpoints.size(); ++i)
    remove_all(checkpoints[i].path);
}

}  // namespace ng::io
