// A run's stretches: from its start, or a resume, to the next. Each has settings of its own, which
// metrics.jsonl tells with its events `start` and `resume`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "train/run_config.h"

namespace ng {

class Recipe;

struct Stretch {
  int64_t first = 0;  ///< steps done before it
  Json settings;      ///< settings_of(); empty where an older version began it
  Json changed;       ///< changed_settings() from the stretch before
};

/// Every key of the run file and its value, `ranks`, and behind "recipe." every key of the recipe.
[[nodiscard]] Json settings_of(const RunConfig& config, const Recipe& recipe, int ranks);

/// {"train.lr": {"before": 0.01, "now": 0.02}, ...}; null where one side has no such key.
[[nodiscard]] Json changed_settings(const Json& before, const Json& now);

/// In place of those in which no step was done that is left.
void add_stretch(std::vector<Stretch>& stretches, Stretch stretch);
/// The same of what a line of metrics.jsonl begins, if it does.
void take_stretch(std::vector<Stretch>& stretches, const Json& line);

/// Those of a metrics.jsonl; none where there is no such file.
[[nodiscard]] std::vector<Stretch> read_stretches(const std::string& path);

/// What held in the step before `step`, where a run that has `now` goes on. The checkpoint of that
/// step is believed first: `saved` are settings that it has as TOML, `recipe` is its recipe.
[[nodiscard]] Json settings_before(const std::vector<Stretch>& stretches, int64_t step,
                                   const std::map<std::string, std::string>& saved,
                                   const Recipe& recipe, const Json& now);

/// One line for each setting that changed: "after step 30: train.lr: 0.01 -> 0.02".
[[nodiscard]] std::string history_text(const std::vector<Stretch>& stretches);

/// A value of a setting as people read it: "none" where there is none.
[[nodiscard]] std::string setting_text(const Json& value);

}  // namespace ng
