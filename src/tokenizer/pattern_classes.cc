#include "tokenizer/pattern_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/utf8.h"
#include "tokenizer/unicode_categories.h"

namespace ng {
namespace {

constexpr size_t kMaxSets = 64;
constexpr size_t kMaxClasses = 256;
constexpr char32_t kAscii = 0x80, kLastPoint = 0x10FFFF;
// The first characters that stand for classes: Syriac, Chinese, rare Chinese.
constexpr std::array<char32_t, 3> kStandIns = {0x700, 0x4E00, 0x20000};
constexpr std::array<char32_t, 2> kStaying = {0x17F, 0x212A};

bool is_staying(char32_t point) {
  return std::find(kStaying.begin(), kStaying.end(), point) != kStaying.end();
}

std::string hex(char32_t point) { return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(point)); }

bool has_two_cases(CharacterSet::Range range) {
  for (char32_t point = std::max(range.first, kAscii); point <= range.last; ++point)
    if (category_of(point) <= Category::titlecase) return true;
  return false;
}

/// Cuts a pattern into sets, which are what one character matches, and what lies between them.
class PatternReader {
 public:
  struct Part {
    std::string text;  ///< as it is
    int set = -1;      ///< or a set of sets(), by its index
  };

  explicit PatternReader(std::string_view pattern) : rest_(pattern) {
    while (!rest_.empty() && objection_.empty()) read_part();
    if (sets_.size() > kMaxSets) objection_ = fmt::format("more than {} classes", kMaxSets);
    if (ignores_case_)
      for (const CharacterSet& set : sets_)
        if (std::any_of(set.ranges().begin(), set.ranges().end(), has_two_cases))
          objection_ = "letters that are not ASCII and (?i)";
  }

  [[nodiscard]] const std::string& objection() const { return objection_; }
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const std::vector<CharacterSet>& sets() const { return sets_; }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char32_t take_character() {
    const size_t bytes = character_bytes(rest_.front());
    const char32_t point = code_point(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return point;
  }
  void add_set(CharacterSet set) {
    parts_.push_back({"", static_cast<int>(sets_.size())});
    sets_.push_back(std::move(set));
  }

  void read_part() {
    if (take("[")) return read_brackets();
    const std::string_view before = rest_;
    if (take("(?")) {
      const std::string_view flags = rest_.substr(0, rest_.find_first_not_of("imsxn-"));
      ignores_case_ = ignores_case_ || flags.find('i') != std::string_view::npos;
      parts_.push_back({"(?", -1});
      return;
    }
    CharacterSet set;
    const std::optional<char32_t> point = read_item(set);
    if (!point) return add_set(std::move(set));
    if (*point < kAscii) {
      const std::string_view text = before.substr(0, before.size() - rest_.size());
      parts_.push_back({text.starts_with("\\u") ? hex(*point) : std::string(text), -1});
      return;
    }
    set.add({*point, *point});
    add_set(std::move(set));
  }

  void read_brackets() {
    CharacterSet set;
    const bool is_negated = take("^");
    if (rest_.starts_with("]")) objection_ = "a class that begins with ]";
    while (objection_.empty() && !take("]")) {
      if (rest_.empty()) objection_ = "a class without its ]";
      if (rest_.starts_with("[")) objection_ = "a class in a class";
      if (rest_.starts_with("&&")) objection_ = "classes joined by &&";
      if (objection_.empty()) read_member(set);
    }
    if (is_negated) set.negate();
    add_set(std::move(set));
  }

  void read_member(CharacterSet& set) {
    const std::optional<char32_t> first = read_item(set);
    if (!first) return;
    CharacterSet::Range range{*first, *first};
    if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
      rest_.remove_prefix(1);
      const std::optional<char32_t> last = read_item(set);
      if (!last || *last < *first) objection_ = "a range that does not ascend";
      range.last = last.value_or(*first);
    }
    set.add(range);
  }

  /// A character, or, where there is none, a class that was added to the set.
  std::optional<char32_t> read_item(CharacterSet& set) {
    if (!take("\\")) return take_character();
    if (rest_.empty()) {
      objection_ = "\\ at its end";
      return {};
    }
    const char32_t kind = take_character();
    switch (kind) {
      case 'r':
        return U'\r';
      case 'n':
        return U'\n';
      case 't':
        return U'\t';
      case 's':
      case 'S':
        (void)set.add_class("s", kind == 'S');
        return {};
      case 'p':
      case 'P':
        add_property(set, kind == 'P');
        return {};
      case 'x':
        return read_hex(take("{") ? rest_.find('}') : 0, 1);
      case 'u':
        return read_hex(4, 0);
      default:
        return kind;
    }
  }

  void add_property(CharacterSet& set, bool is_negated) {
    const size_t end = rest_.find('}');
    if (!take("{") || end == std::string_view::npos) {
      objection_ = "\\p without {}";
      return;
    }
    if (take("^")) is_negated = !is_negated;
    const std::string_view name = rest_.substr(0, rest_.find('}'));
    if (!set.add_class(name, is_negated)) objection_ = fmt::format("\\p{{{}}}", name);
    rest_.remove_prefix(name.size() + 1);
  }

  /// The character of so many digits, and what stands behind them.
  std::optional<char32_t> read_hex(size_t digits, size_t behind) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    constexpr size_t kMaxDigits = 8;
    char32_t point = 0;
    bool is_valid = digits > 0 && digits <= kMaxDigits && digits + behind <= rest_.size();
    for (size_t i = 0; is_valid && i < digits; ++i) {
      const size_t value = kDigits.find(static_cast<char>(rest_[i] | 0x20));
      is_valid = value != std::string_view::npos && point <= kLastPoint / 16;
      point = point * 16 + static_cast<char32_t>(value);
    }
    const bool is_surrogate = point >= 0xD800 && point < 0xE000;
    if (!is_valid || point > kLastPoint || is_surrogate) {
      objection_ = "\\x or \\u that name no character";
      return {};
    }
    rest_.remove_prefix(digits + behind);
    return point;
  }

  std::string_view rest_;
  bool ignores_case_ = false;
  std::string objection_;
  std::vector<Part> parts_;
  std::vector<CharacterSet> sets_;
};

/// Where some set or a category begins or ends, beyond ASCII.
std::vector<char32_t> borders_of(const std::vector<CharacterSet>& sets) {
  std::vector<char32_t> borders = {kAscii};
  const auto add = [&](char32_t point) {
    if (point > kAscii && point <= kLastPoint) borders.push_back(point);
  };
  for (const char32_t start : category_starts()) add(start);
  for (const CharacterSet& set : sets) {
    for (const CharacterSet::Range& range : set.ranges()) {
      add(range.first);
      add(range.last + 1);
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

}  // namespace

CharacterClasses::CharacterClasses(const std::vector<CharacterSet>& sets) {
  std::map<uint64_t, uint16_t> known;
  for (const char32_t first : borders_of(sets)) {
    uint64_t of_sets = 0;
    for (size_t i = 0; i < sets.size(); ++i)
      of_sets |= static_cast<uint64_t>(sets[i].contains(first)) << i;
    const auto index = static_cast<uint16_t>(classes_.size());
    const auto [found, is_new] = known.emplace(of_sets, index);
    if (is_new) {
      Class made{of_sets, {}};
      for (size_t i = 0; i < kStandIns.size(); ++i)
        made.characters[i] = utf8_of(kStandIns[i] + index);
      classes_.push_back(std::move(made));
      if (classes_.size() > kMaxClasses) return;
    }
    if (runs_.empty() || runs_.back().index != found->second)
      runs_.push_back({first, found->second});
  }
}

std::string CharacterClasses::regex_of(size_t index, const CharacterSet& set) const {
  std::string members;
  for (char32_t point = 0; point < kAscii; ++point) {
    if (!set.contains(point)) continue;
    const char32_t first = point;
    while (point + 1 < kAscii && set.contains(point + 1)) ++point;
    members += first == point ? hex(first) : hex(first) + "-" + hex(point);
  }
  for (size_t i = 0; i < classes_.size(); ++i)
    if ((classes_[i].sets >> index & 1) != 0)
      for (const char32_t first : kStandIns) members += hex(first + static_cast<char32_t>(i));
  for (const char32_t point : kStaying)
    if (set.contains(point)) members += hex(point);
  return members.empty() ? "[^" + hex(0) + "-" + hex(kLastPoint) + "]" : "[" + members + "]";
}

const CharacterClasses::Class& CharacterClasses::class_of(char32_t point) const {
  const auto behind =
      std::upper_bound(runs_.begin(), runs_.end(), point,
                       [](char32_t place, const Run& run) { return place < run.first; });
  return classes_[(behind - 1)->index];
}

std::string_view CharacterClasses::standing_for(std::string_view text, std::string& buffer) const {
  size_t at = ascii_prefix(text);
  if (at == text.size()) return text;
  buffer.assign(text);
  while (at < text.size()) {
    const size_t bytes = character_bytes(text[at]);
    if (bytes > 1) {
      const char32_t point = code_point(text.substr(at, bytes));
      if (!is_staying(point)) class_of(point).characters[bytes - 2].copy(&buffer[at], bytes);
    }
    at += bytes;
  }
  return buffer;
}

ClassedPattern::ClassedPattern(std::string_view pattern) {
  const PatternReader reader(pattern);
  objection_ = reader.objection();
  if (!objection_.empty()) return;
  classes_ = CharacterClasses(reader.sets());
  if (classes_.count() > kMaxClasses) {
    objection_ = "too many classes of characters";
    return;
  }
  for (const PatternReader::Part& part : reader.parts()) {
    const auto set = static_cast<size_t>(part.set);
    regex_ += part.set < 0 ? part.text : classes_.regex_of(set, reader.sets()[set]);
  }
}

bool needs_classes(std::string_view pattern) {
  if (ascii_prefix(pattern) != pattern.size()) return true;
  for (size_t at = pattern.find('\\'); at != std::string_view::npos;
       at = pattern.find('\\', at + 2)) {
    const std::string_view escape = pattern.substr(at);
    if (escape.starts_with("\\x") || escape.starts_with("\\u")) return true;
  }
  return false;
}

}  // namespace ng
