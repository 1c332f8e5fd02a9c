#include "train/run_files.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/version.h"
#include "data/text_files.h"
#include "io/checkpoint_files.h"
#include "io/hf/folder.h"
#include "train/metrics.h"
#include "train/run_inputs.h"
#include "train/run_keys.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRunFileBegin = "# narrowgauge ";
constexpr const char* kUnknown = "is there and not known as a run's";
constexpr std::string_view kHistoryMark = "\n# Settings that changed where the run was resumed:\n";
constexpr std::string_view kRecipeMark = "\n# The recipe, resolved (hash ";

/// A key of the run file and a file or folder that it names.
using Input = std::pair<std::string, std::string>;

std::vector<Input> inputs_of(const RunConfig& config) {
  std::vector<Input> inputs;
  const auto add_texts = [&](const std::string& key, const std::vector<std::string>& names) {
    if (names.empty()) return;
    for (const std::string& path :
         find_texts(names, {config.source_of({key}), key}, BinaryMeans::nothing).paths())
      inputs.emplace_back(key, path);
  };
  add_texts("data.train", config.data.train);
  add_texts("data.validation", config.data.validation_files);
  if (!config.model.init.empty()) inputs.emplace_back("model.init", config.model.init);
  if (config.data.tokenizer != "bytes")
    inputs.emplace_back("data.tokenizer", config.data.tokenizer);
  return inputs;
}

bool is_or_holds(const std::string& output, const std::string& input) {
  std::error_code unknown;
  if (fs::equivalent(output, input, unknown)) return true;
  const fs::path folder = fs::canonical(output, unknown);
  if (unknown || !is_folder(output)) return false;
  const fs::path inside = fs::canonical(input, unknown).lexically_relative(folder);
  return !unknown && !inside.empty() && *inside.begin() != "..";
}

// The run that goes on writes that anew.
std::string without_history(std::string text) {
  const size_t begin = text.find(kHistoryMark), end = text.find(kRecipeMark);
  if (begin < end && end != std::string::npos) text.erase(begin, end - begin);
  return text;
}

// The text of a run file as it was before any of kOlderDefaults was a key.
std::string without_younger_keys(std::string toml) {
  for (const OlderDefault& older : kOlderDefaults) {
    const size_t line = toml.find(fmt::format("\n{} = ", older.key));
    if (line != std::string::npos) toml.erase(line, toml.find('\n', line + 1) - line);
  }
  return toml;
}

// Whether a run wrote the text and nobody changed more than values in it: no comment is lost.
bool is_unchanged(const std::string& text) {
  const auto below_first_line = [](const std::string& all) {
    return without_history(all.substr(all.find('\n')));
  };
  if (!is_of_run(text)) return false;
  try {
    const RunConfig config = RunConfig::parse(text, "");
    const std::string written = below_first_line(run_file_text(config, open_run_recipe(config)));
    return below_first_line(text) == written ||
           below_first_line(text) == without_younger_keys(written);
  } catch (const Error&) {
    return false;  // its values are others by now
  }
}

[[noreturn]] void refuse_unknown(const std::string& path, const std::string& problem) {
  throw Error({.place = path,
               .key = "",
               .problem = problem,
               .remedy = "another --out, or that moved out of the way"});
}

// Whether the folder holds a run.toml of a run; throws for another one.
bool require_own_run_file(const RunConfig& config, const std::string& path) {
  if (is_folder(path)) refuse_unknown(path, "is a folder");
  if (!is_file(path) || file_size(path) == 0) return false;
  const std::string text = read_file(path, kMaxTomlBytes);
  std::error_code unknown;
  if (fs::equivalent(config.place, path, unknown) && !is_unchanged(text))
    throw Error({.place = path,
                 .key = "",
                 .problem = "is the run file, and would be replaced",
                 .remedy = "another --out, or the run file under another name"});
  if (!is_of_run(text)) refuse_unknown(path, kUnknown);
  return true;
}

// A run that goes on puts this back or removes it.
void require_own_replaced_metrics(const std::string& path, bool holds_run) {
  if (is_folder(path)) refuse_unknown(path, "is a folder");
  if (is_file(path) && file_size(path) > 0 && !(holds_run && holds_metrics(path)))
    refuse_unknown(path, kUnknown);
}

}  // namespace

bool is_of_run(std::string_view text) {
  return text.starts_with(kRunFileBegin) && text.find(kRecipeMark) != std::string_view::npos;
}

RunConfig as_begun(RunConfig config, const std::string& folder) {
  const std::string file = join_path(folder, kRunFile);
  if (!is_file(file)) return config;
  const std::string text = read_file(file, kMaxTomlBytes);
  if (!is_of_run(text)) return config;
  const toml::table begun = parse_toml(text, file);
  for (const OlderDefault& older : kOlderDefaults)
    if (!config.given.contains(older.key) && !find_item(begun, older.key, "")) older.put(config);
  return config;
}

std::string run_file_text(const RunConfig& config, const Recipe& recipe,
                          const std::string& history) {
  std::string text =
      fmt::format("{}{}, {}\n", kRunFileBegin, version(), compiler()) + config.resolved_toml();
  if (!history.empty()) text += std::string(kHistoryMark) + commented(history);
  return text + std::string(kRecipeMark) + recipe.hash() + "):\n" +
         commented(recipe.resolved_toml());
}

RunConfig load_run_config(const std::string& folder) {
  const std::string file = join_path(folder, kRunFile);
  if (is_file(file)) return RunConfig::load(file);
  throw Error({.place = folder,
               .key = "",
               .problem = is_folder(folder) ? "holds no run.toml" : "no such folder",
               .remedy = "the folder of a run: run.toml, checkpoints/"});
}

std::optional<Recipe> recipe_in(const std::string& toml, const std::string& path) {
  try {
    return Recipe::parse(toml, path);
  } catch (const Error&) {
    return {};  // of a version with other keys, or changed by hand
  }
}

std::optional<Recipe> recipe_of_run_file(const std::string& path) {
  const std::string text = read_file(path, kMaxTomlBytes);
  const size_t mark = text.find(kRecipeMark);
  if (mark == std::string::npos) return {};
  const size_t begin = text.find('\n', mark + kRecipeMark.size());
  if (begin == std::string::npos) return {};
  return recipe_in(uncommented(std::string_view(text).substr(begin + 1)), path);
}

std::string run_file_beside(const std::string& model) {
  std::error_code unknown;
  const fs::path whole = fs::weakly_canonical(model, unknown);
  return ((unknown ? fs::path(model) : whole).parent_path() / kRunFile).string();
}

std::optional<int64_t> steps_of_model(const std::string& model) {
  const std::string own = join_path(model, kRunFile);  // a run's folder stands for its model
  const std::string run_file = is_file(own) ? own : run_file_beside(model);
  if (!is_file(run_file)) return {};
  return RunConfig::load(run_file).train.steps;
}

void require_not_read(const RunConfig& config, std::span<const std::string> outputs) {
  std::vector<std::string> there;
  for (const std::string& output : outputs)
    if (is_file(output) || is_folder(output)) there.push_back(output);
  if (there.empty()) return;
  for (const auto& [key, path] : inputs_of(config))
    for (const std::string& output : there)
      if (is_or_holds(output, path))
        throw Error({.place = path,
                     .key = key,
                     .problem = fmt::format("is read by the run, which writes {}", output),
                     .remedy = "another --out, or a copy of it elsewhere"});
}

void require_own_folder(const RunConfig& config, const std::string& folder) {
  const auto path_of = [&](std::string_view name) { return join_path(folder, name); };
  const std::string run_file = path_of(kRunFile), model = path_of(kModelFolder);
  const std::string checkpoints = path_of(kCheckpointsFolder);
  const std::string replaced = replaced_metrics(path_of(kMetricsFile));
  const bool has_run_file = require_own_run_file(config, run_file);
  require_not_read(config, std::vector<std::string>{run_file, path_of(kMetricsFile), replaced,
                                                    path_of(kReportFile), checkpoints, model});
  if (is_file(checkpoints)) refuse_unknown(checkpoints, "is a file, not a folder for checkpoints");
  io::require_replaceable(model);
  const bool holds_run = has_run_file || !io::list_checkpoints(checkpoints).empty();
  if (is_folder(path_of(kMetricsFile))) refuse_unknown(path_of(kMetricsFile), "is a folder");
  for (const std::string_view name : {kMetricsFile, kReportFile}) {
    if (!holds_run && is_file(path_of(name)) && file_size(path_of(name)) > 0)
      refuse_unknown(path_of(name), kUnknown);
  }
  require_own_replaced_metrics(replaced, holds_run);
  if (!holds_run && is_folder(model) && !list_folder(model).empty())
    refuse_unknown(model, kUnknown);
}

bool is_run_file(std::string_view name) {
  return name == kRunFile || name == kMetricsFile || name == kReportFile || name == kModelFolder;
}

}  // namespace ng
