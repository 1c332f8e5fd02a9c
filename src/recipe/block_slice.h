// Which blocks of a model an override means: a Python slice whose bounds may be shares of the
// depth. [recipes.md §0]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ng {

/// "-8:", ":2", "1:-1", "::2", "-15%:" (the last 15 %, rounded up to whole blocks).
class BlockSlice {
 public:
  /// Empty where `text` is no slice.
  [[nodiscard]] static std::optional<BlockSlice> parse(std::string_view text);
  [[nodiscard]] bool contains(int64_t block, int64_t depth) const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Bound {
    int64_t count = 0;  ///< blocks, or thousandths of a per cent of the depth
    bool is_share = false;
    bool from_end = false;
    [[nodiscard]] int64_t block(int64_t depth) const;
  };
  static bool parse_bound(std::string_view text, std::optional<Bound>& bound);

  std::string text_;
  std::optional<Bound> start_, stop_;
  int64_t step_ = 1;
};

}  // namespace ng
