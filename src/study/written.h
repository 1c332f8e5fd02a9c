// What studies say: study NAME's sentences are in NAME.md beside its code.
//
//   # Title of the report
//   ## key: Heading of a section
//   A paragraph of any number of lines, with {fact:.2f} and {table[row][column]:.1f} in it.
//
// A reference is the name of a fact, or a number found in a table of the section (behind it
// ".error": its standard error), or one such number less another ("a[r][c] - b[r][c]"), then how it
// is formatted. Rows and columns are named, or counted from 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "study/report.h"

namespace ng::study {

/// What a text names beside numbers of tables.
using Fact = std::variant<double, int64_t, std::string>;
using Facts = std::map<std::string, Fact, std::less<>>;

/// The title of a study.
[[nodiscard]] std::string title_of(std::string_view study);

/// Heading and paragraphs of a section with its tables. What they refer to must be there.
[[nodiscard]] Section section_of(std::string_view study, std::string_view key,
                                 std::vector<Grid> grids, const Facts& facts = {});

/// A text with its references filled in.
[[nodiscard]] std::string filled_in(std::string_view text, const std::vector<Grid>& grids,
                                    const Facts& facts);

/// What NAME.md of a study holds. (Made by cmake/assets.cmake.)
[[nodiscard]] std::string_view written_text(std::string_view study);

}  // namespace ng::study
