// The files of a run in its folder, and what must not be lost to them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "recipe/recipe.h"
#include "train/run_config.h"

namespace ng {

inline constexpr std::string_view kRunFile = "run.toml";
inline constexpr std::string_view kMetricsFile = "metrics.jsonl";
inline constexpr std::string_view kReportFile = "report.html";
inline constexpr std::string_view kCheckpointsFolder = "checkpoints";
inline constexpr std::string_view kModelFolder = "model";

/// The run.toml in a run's folder. Throws Error where there is none.
[[nodiscard]] RunConfig load_run_config(const std::string& folder);
/// Whether the text is a run.toml that a run wrote.
[[nodiscard]] bool is_of_run(std::string_view text);
/// The configuration of a run that goes on in a folder: what neither it nor the folder's run.toml
/// gives is as kOlderDefaults says.
[[nodiscard]] RunConfig as_begun(RunConfig config, const std::string& folder);
/// run.toml: every key written out; in comments the recipe, and of `history` the lines that say
/// which settings were others before.
[[nodiscard]] std::string run_file_text(const RunConfig& config, const Recipe& recipe,
                                        const std::string& history = "");
/// The recipe that a file of a run holds as resolved TOML; none where that cannot be read.
[[nodiscard]] std::optional<Recipe> recipe_in(const std::string& toml, const std::string& path);
/// The recipe in the comments of a run.toml, whatever has become of its own file; none where it
/// cannot be read there.
[[nodiscard]] std::optional<Recipe> recipe_of_run_file(const std::string& path);

/// Where the run.toml of a model's run would be: RUN/run.toml of RUN/model, without dots and links.
[[nodiscard]] std::string run_file_beside(const std::string& model);
/// How many steps the run whose model this is takes; none where it is no run's.
[[nodiscard]] std::optional<int64_t> steps_of_model(const std::string& model);

/// Throws Error where one of `outputs`, files or folders, is or holds a text, tokenizer or model
/// that the run reads.
void require_not_read(const RunConfig& config, std::span<const std::string> outputs);

/// Throws Error where a run of `config` in `folder` would replace what it reads or what no run
/// wrote, or could not write because something else is in the way.
void require_own_folder(const RunConfig& config, const std::string& folder);

/// Whether `name` is that of something a run keeps in its folder under one name.
[[nodiscard]] bool is_run_file(std::string_view name);

}  // namespace ng
