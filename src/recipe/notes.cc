#include "recipe/notes.h"

#include <algorithm>
#include <utility>

namespace ng {
namespace {

// Without the point that ends a sentence on a line of its own.
void end_sentence(std::string& text) {
  if (text.ends_with('.')) text.pop_back();
}

}  // namespace

RecipeNotes notes_in(std::string_view file) {
  RecipeNotes notes;
  std::string about;
  const std::pair<std::string_view, std::string*> labels[] = {
      {"Source:", &notes.source}, {"Claim:", &notes.claim}, {"Deviates:", &notes.deviates}};
  std::string* paragraph = &about;
  for (size_t at = 0; at < file.size() && file[at] == '#';) {
    const size_t end = std::min(file.find('\n', at), file.size());
    const size_t begin = std::min(file.find_first_not_of("# ", at), end);
    std::string_view line = file.substr(begin, end - begin);
    for (const auto& [label, text] : labels)
      if (line.starts_with(label)) {
        paragraph = text;
        line.remove_prefix(std::min(line.find_first_not_of(' ', label.size()), line.size()));
      }
    if (!line.empty()) (*paragraph += paragraph->empty() ? "" : " ") += line;
    at = end + 1;
  }
  notes.summary = about.substr(0, about.find(". "));
  end_sentence(notes.summary);
  for (const auto& [label, text] : labels) end_sentence(*text);
  return notes;
}

}  // namespace ng
