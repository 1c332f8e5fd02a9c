// What a study found, as sentences, tables and pictures, and the files they are written to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/phase_choice.h"
#include "study/grid.h"

namespace ng::study {

/// Part of a page: a heading, what is seen, then tables and pictures.
struct Section {
  std::string heading;
  std::vector<std::string> paragraphs;
  std::vector<Grid> grids = {};
  std::vector<Chart> charts = {};
  std::vector<Panels> panels = {};  ///< behind the charts
};

/// In which of its phases a recipe was measured.
struct PhaseOfRecipe {
  std::string recipe;
  int64_t step = 0;  ///< of the run, at whose weights
  MeasuredPhase phase;
};

struct Report {
  std::string name;   ///< of the study
  std::string title;  ///< one sentence
  std::vector<Section> sections;
  std::vector<PhaseOfRecipe> phases = {};  ///< of a study that measures in phases
};

/// Which program made a report, and how.
struct Origin {
  std::string command;  ///< as typed
  uint64_t seed = 0;
};

/// One record per number: table,row,column,value,standard_error,expected,difference_percent.
[[nodiscard]] std::string csv_of(const Report& report);
/// The same, with captions and paragraphs.
[[nodiscard]] std::string json_of(const Report& report, const Origin& origin);
/// One page with everything in it.
[[nodiscard]] std::string page_of(const Report& report, const Origin& origin);

/// What every page begins with.
inline constexpr std::string_view kPageBegin =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>";

/// Throws Error where write_report would replace what no study wrote.
void require_own_report(const std::string& folder, std::string_view name);

/// Writes NAME.csv, NAME.json and index.html into a folder, which is made where it is missing. Each
/// file appears whole.
void write_report(const std::string& folder, const Report& report, const Origin& origin);

}  // namespace ng::study
