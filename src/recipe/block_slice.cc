#include "recipe/block_slice.h"

#include <algorithm>
#include <charconv>

namespace ng {
namespace {

constexpr int64_t kSharePerPercent = 1000;
constexpr int64_t kWhole = 100 * kSharePerPercent;
constexpr size_t kMaxDigits = 9;  // of a number: far above any depth, no overflow

/// Digits only, at most kMaxDigits of them.
std::optional<int64_t> parse_digits(std::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-')
    return std::nullopt;
  return value;
}

/// "15", "12.5", "0.125": at most three digits after the point.
std::optional<int64_t> parse_percent(std::string_view text) {
  const size_t point = text.find('.');
  const auto whole = parse_digits(text.substr(0, point));
  int64_t part = 0;
  if (point != std::string_view::npos) {
    std::string digits(text.substr(point + 1));
    if (digits.empty() || digits.size() > 3) return std::nullopt;
    digits.resize(3, '0');
    const auto value = parse_digits(digits);
    if (!value) return std::nullopt;
    part = *value;
  }
  if (!whole || *whole * kSharePerPercent + part > kWhole) return std::nullopt;
  return *whole * kSharePerPercent + part;
}

}  // namespace

int64_t BlockSlice::Bound::block(int64_t depth) const {
  const int64_t blocks = is_share ? (count * depth + kWhole - 1) / kWhole : count;
  return std::clamp<int64_t>(from_end ? depth - blocks : blocks, 0, depth);
}

bool BlockSlice::parse_bound(std::string_view text, std::optional<Bound>& bound) {
  if (text.empty()) return true;
  Bound result;
  result.from_end = text.front() == '-';
  if (result.from_end) text.remove_prefix(1);
  result.is_share = text.ends_with('%');
  if (result.is_share) text.remove_suffix(1);
  const auto count = result.is_share ? parse_percent(text) : parse_digits(text);
  if (!count) return false;
  result.count = *count;
  // -0 is 0 in Python; a share of nothing counted from the end stays at the end.
  if (!result.is_share && result.count == 0) result.from_end = false;
  bound = result;
  return true;
}

std::optional<BlockSlice> BlockSlice::parse(std::string_view text) {
  BlockSlice slice;
  slice.text_ = text;
  const size_t first = text.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = text.find(':', first + 1);
  const std::string_view start = text.substr(0, first);
  const std::string_view stop =
      text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
  if (!parse_bound(start, slice.start_) || !parse_bound(stop, slice.stop_)) return std::nullopt;
  if (second != std::string_view::npos && second + 1 < text.size()) {
    const auto step = parse_digits(text.substr(second + 1));
    if (!step || *step == 0) return std::nullopt;
    slice.step_ = *step;
  }
  return slice;
}

bool BlockSlice::contains(int64_t block, int64_t depth) const {
  const int64_t start = start_ ? start_->block(depth) : 0;
  const int64_t stop = stop_ ? stop_->block(depth) : depth;
  return block >= start && block < stop && (block - start) % step_ == 0;
}

}  // namespace ng
