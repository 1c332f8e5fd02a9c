#include "tokenizer/unicode_categories.h"

#include "base/error.h"

namespace ng {
namespace {

constexpr size_t kCodePoints = 0x110000;
constexpr std::string_view kCategoryLetters = "ultmokdrncpswx";  // by Category

std::vector<Category> make_table() {
  std::vector<Category> table;
  table.reserve(kCodePoints);
  const std::string_view runs = detail::kCategoryRuns;
  for (size_t at = 0; at < runs.size();) {
    const auto category = static_cast<Category>(kCategoryLetters.find(runs[at++]));
    size_t length = 0;
    for (; at < runs.size() && runs[at] >= '0' && runs[at] <= '9'; ++at)
      length = 10 * length + static_cast<size_t>(runs[at] - '0');
    table.resize(table.size() + (length == 0 ? 1 : length), category);
  }
  NG_CHECK(table.size() == kCodePoints, table.size());
  return table;
}

}  // namespace

Category category_of(char32_t code_point) {
  static const std::vector<Category> kTable = make_table();
  return kTable[code_point];
}

const std::vector<char32_t>& category_starts() {
  static const std::vector<char32_t> kStarts = [] {
    std::vector<char32_t> starts = {0};
    for (char32_t point = 1; point < kCodePoints; ++point)
      if (category_of(point) != category_of(point - 1)) starts.push_back(point);
    return starts;
  }();
  return kStarts;
}

bool is_word_character(char32_t code_point) {
  const auto is_in = [&](char32_t first, char32_t last) {
    return code_point >= first && code_point <= last;
  };
  const Category category = category_of(code_point);
  return category <= Category::letter_number || category == Category::connector ||
         is_in(0x200C, 0x200D) || is_in(0x24B6, 0x24E9) || is_in(0x1F130, 0x1F149) ||
         is_in(0x1F150, 0x1F169) || is_in(0x1F170, 0x1F189);
}

}  // namespace ng
