#include "study/written.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace ng::study {
namespace {

size_t place_of_name(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  size_t number = 0;
  const char* all = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data(), all, number);
  NG_CHECK(error == std::errc{} && end == all && number < names.size(), name);
  return number;
}

/// "table[row][column]" or "table[row][column].error", or one less another.
double number_at(std::string_view what, const std::vector<Grid>& grids) {
  if (const size_t less = what.find("] - "); less != std::string_view::npos)
    return number_at(what.substr(0, less + 1), grids) - number_at(what.substr(less + 4), grids);
  const size_t row = what.find('['), column = what.find("]["), end = what.rfind(']');
  NG_CHECK(column != std::string_view::npos && end > column + 1, what);
  const auto grid = std::find_if(grids.begin(), grids.end(), [&](const Grid& each) {
    return each.name == what.substr(0, row);
  });
  NG_CHECK(grid != grids.end(), what);
  const Value& value =
      grid->at(place_of_name(grid->rows, what.substr(row + 1, column - row - 1)),
               place_of_name(grid->columns, what.substr(column + 2, end - column - 2)));
  const std::string_view part = what.substr(end + 1);
  NG_CHECK(part.empty() || part == ".error", what);
  return part.empty() ? value.found : value.error;
}

/// What stands between braces: a reference and how it is formatted.
std::string referred(std::string_view reference, const std::vector<Grid>& grids,
                     const Facts& facts) {
  const size_t bracket = reference.rfind(']');
  const size_t colon = reference.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view what = reference.substr(0, colon);
  const std::string format =
      fmt::format("{{{}}}", colon == std::string_view::npos ? "" : reference.substr(colon));
  if (bracket != std::string_view::npos)
    return fmt::format(fmt::runtime(format), number_at(what, grids));
  const auto fact = facts.find(what);
  NG_CHECK(fact != facts.end(), what);
  return std::visit([&](const auto& value) { return fmt::format(fmt::runtime(format), value); },
                    fact->second);
}

/// Lines as one, what is between empty ones each.
std::vector<std::string> paragraphs_of(std::string_view text) {
  std::vector<std::string> paragraphs;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    std::string paragraph(text.substr(0, end));
    while (!paragraph.empty() && paragraph.back() == '\n') paragraph.pop_back();
    std::replace(paragraph.begin(), paragraph.end(), '\n', ' ');
    if (!paragraph.empty()) paragraphs.push_back(std::move(paragraph));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return paragraphs;
}

}  // namespace

std::string title_of(std::string_view study) {
  const std::string_view text = written_text(study);
  return std::string(text.substr(2, text.find('\n') - 2));
}

std::string filled_in(std::string_view text, const std::vector<Grid>& grids, const Facts& facts) {
  std::string filled;
  for (;;) {
    const size_t begin = text.find('{'), end = text.find('}', begin);
    filled += text.substr(0, begin);
    if (begin == std::string_view::npos) return filled;
    NG_CHECK(end != std::string_view::npos, text);
    filled += referred(text.substr(begin + 1, end - begin - 1), grids, facts);
    text.remove_prefix(end + 1);
  }
}

Section section_of(std::string_view study, std::string_view key, std::vector<Grid> grids,
                   const Facts& facts) {
  std::string_view text = written_text(study);
  const std::string mark = fmt::format("\n## {}: ", key);
  const size_t at = text.find(mark);
  NG_CHECK(at != std::string_view::npos, study, key);
  text.remove_prefix(at + mark.size());
  text = text.substr(0, text.find("\n## "));
  const size_t heading = text.find('\n');
  Section section{.heading = {},
                  .paragraphs = paragraphs_of(text.substr(heading + 1)),
                  .grids = std::move(grids)};
  section.heading = filled_in(text.substr(0, heading), section.grids, facts);
  for (std::string& paragraph : section.paragraphs)
    paragraph = filled_in(paragraph, section.grids, facts);
  return section;
}

}  // namespace ng::study
