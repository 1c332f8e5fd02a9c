// A grid of settings: every combination of the values of some keys of a run file.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/run_config.h"

namespace ng {

/// Keys and values as they were given: {"train.lr", "1e-3"}.
using GridSettings = std::vector<std::pair<std::string, std::string>>;

struct GridPoint {
  GridSettings settings;
  RunConfig config;
};

/// All combinations of axes "KEY=VALUE,VALUE,...", the last key's values fastest; without axes one,
/// of nothing. Throws Error where an axis is no list, is given twice or is what a comparison varies
/// itself.
[[nodiscard]] std::vector<GridSettings> grid_settings(const std::vector<std::string>& axes);

/// Points of all combinations. `load` makes a run of settings "KEY=VALUE". Throws Error where
/// grid_settings() does and where two points are the same run.
[[nodiscard]] std::vector<GridPoint> grid_points(
    const std::vector<std::string>& axes,
    const std::function<RunConfig(const std::vector<std::string>&)>& load);

/// {"train.lr=1e-3", "train.batch=8"}
[[nodiscard]] std::vector<std::string> words_of(const GridSettings& settings);
/// "train.lr=1e-3, train.batch=8"; empty for no grid.
[[nodiscard]] std::string text_of(const GridSettings& settings);
/// The same as a folder's name.
[[nodiscard]] std::string folder_name(const GridSettings& settings);

}  // namespace ng
