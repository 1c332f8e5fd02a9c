// What a part of a regular expression matches: a set of code points, by Unicode 16's categories.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ng {

/// Ranges and categories, or all other code points.
class CharacterSet {
 public:
  struct Range {
    char32_t first, last;
  };

  void add(Range range) { ranges_.push_back(range); }
  /// \s, or what stands in the braces of \p: L Lu Ll Lt Lm Lo M N P S Z. False: it is none of them.
  bool add_class(std::string_view name, bool is_negated);
  void negate() { is_negated_ = !is_negated_; }

  [[nodiscard]] bool contains(char32_t point) const;
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

 private:
  struct Class {
    uint32_t categories;  ///< a bit for each
    bool without_controls, is_negated;
    [[nodiscard]] bool contains(char32_t point) const;
  };
  std::vector<Range> ranges_;
  std::vector<Class> classes_;
  bool is_negated_ = false;
};

}  // namespace ng
