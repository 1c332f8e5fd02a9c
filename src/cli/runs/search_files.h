// What a search leaves in its folder beside the runs of its rungs: report.html, search.csv,
// search.json, search.md, and gradients.json, by which the next call goes on.
#pragma once

#include <map>
#include <string>

#include "base/json_fwd.h"
#include "cli/runs/search_setup.h"
#include "search/gradient_score.h"

namespace ng::cli {

/// Throws Error where the folder is of another search, by the keys that differ, holds something
/// else, or the run reads it.
void require_own_search(const SearchSetup& setup);

void write_search_files(const SearchSetup& setup, const search::SearchReport& report);
/// The report, and by what settings it was made.
[[nodiscard]] Json json_of(const SearchSetup& setup, const search::SearchReport& report);
/// Tables and what they mean, for a screen.
[[nodiscard]] std::string search_text(const search::SearchReport& report);
/// Their paths, a line each.
[[nodiscard]] std::string search_files_text(const SearchSetup& setup);

/// By label.
using Scores = std::map<std::string, search::GradientScore>;
[[nodiscard]] Scores read_scores(const SearchSetup& setup);
void write_scores(const SearchSetup& setup, const Scores& scores);

}  // namespace ng::cli
