#include "tokenizer/piece_counts.h"

#include <algorithm>

#include "tokenizer/known_patterns.h"
#include "tokenizer/rewritten_text.h"
#include "tokenizer/split_pattern.h"

namespace ng {
namespace {

constexpr size_t kStretchBytes = 1 << 19;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_visible(char c) { return c > ' ' && c < 0x7F; }

/// Keys are looked up as views of the text, so that a piece makes a string only when it is new.
struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Counts = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

void count(std::string_view stretch, const SplitPattern& pattern, bool compose, Counts& counts) {
  RewrittenText text(stretch, false);
  text.make_valid();
  if (compose) text.normalize(UnicodeForm::nfc);
  std::string buffer;
  SplitScratch scratch;
  Pieces pieces(pattern, with_old_characters(text.text(), buffer), scratch);
  for (Pieces::Piece piece{}; pieces.next(piece);) {
    const std::string_view words = text.text().substr(piece.begin, piece.end - piece.begin);
    const auto found = counts.find(words);
    if (found != counts.end())
      ++found->second;
    else
      counts.emplace(words, 1);
  }
}

}  // namespace

std::vector<std::string_view> stretches_of(std::string_view text, size_t bytes) {
  std::vector<std::string_view> stretches;
  while (text.size() > bytes) {
    size_t border = text.find('\n', bytes);
    while (border != std::string_view::npos &&
           !(border > 0 && border + 1 < text.size() && is_visible(text[border - 1]) &&
             is_letter(text[border + 1])))
      border = text.find('\n', border + 1);
    if (border == std::string_view::npos) break;
    stretches.push_back(text.substr(0, border + 1));
    text.remove_prefix(border + 1);
  }
  if (!text.empty()) stretches.push_back(text);
  return stretches;
}

PieceCounts count_pieces(const std::vector<std::string_view>& texts, std::string_view pattern,
                         bool compose, Threads threads) {
  const SplitPattern split(std::string(known_pattern(pattern)), "", "pattern");
  std::vector<std::string_view> stretches;
  for (std::string_view text : texts) {
    const auto more = stretches_of(text, kStretchBytes);
    stretches.insert(stretches.end(), more.begin(), more.end());
  }
  std::vector<Counts> counts(static_cast<size_t>(std::max(1, threads.count)));
  parallel_for(threads, static_cast<int64_t>(stretches.size()), [&](int64_t item, int worker) {
    count(stretches[size_t(item)], split, compose, counts[size_t(worker)]);
  });
  PieceCounts all;
  for (Counts& some : counts)
    for (const auto& [piece, times] : some) all[piece] += times;
  return all;
}

}  // namespace ng
