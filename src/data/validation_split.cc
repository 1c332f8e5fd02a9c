#include "data/validation_split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/training_data.h"

namespace ng {
namespace {

/// Where part `i` of `parts` equal ones begins; their product may need more than 64 bits.
int64_t begin_of_part(int64_t all, int64_t i, int64_t parts) {
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(static_cast<Wide>(all) * i / parts);
}

/// The place in part `i`, uniform over `places`.
int64_t place_in_part(int64_t i, int64_t places) { return draw_place(0, 0, i, places); }

/// Looks for the places where documents begin.
class Documents {
 public:
  /// Documents that may be cut are, where none begins within `reach` tokens.
  Documents(const TokenSource& source, int64_t reach) : source_(source), reach_(reach) {}

  /// The last that begins at or before `at`, a token; else `at`.
  [[nodiscard]] int64_t at_or_before(int64_t at) const {
    const int64_t least = std::max<int64_t>(at - reach_of(at), 0);
    for (int64_t end = at + 1; end > least;) {
      const int64_t first = std::max(end - kLook, least);
      const std::vector<uint8_t> begins = begins_of(first, end - first);
      const auto found = std::find(begins.rbegin(), begins.rend(), 1);
      if (found != begins.rend()) return end - 1 - (found - begins.rbegin());
      end = first;
    }
    return at;
  }
  /// The first that begins at or after `at`, or the end of the text; else `at`.
  [[nodiscard]] int64_t at_or_after(int64_t at) const {
    const int64_t all = source_.tokens();
    if (at >= all) return all;
    const int64_t most = at + std::min(reach_of(at), all - at);
    for (int64_t first = at; first < most; first += kLook) {
      const std::vector<uint8_t> begins = begins_of(first, std::min(kLook, most - first));
      const auto found = std::find(begins.begin(), begins.end(), 1);
      if (found != begins.end()) return first + (found - begins.begin());
    }
    return most == all ? all : at;
  }

 private:
  static constexpr int64_t kLook = 4096;
  [[nodiscard]] int64_t reach_of(int64_t at) const {
    return source_.keeps_document_whole(at) ? source_.tokens() : reach_;
  }
  [[nodiscard]] std::vector<uint8_t> begins_of(int64_t first, int64_t count) const {
    std::vector<uint8_t> begins(static_cast<size_t>(count));
    source_.read_begins(first, begins);
    return begins;
  }

  const TokenSource& source_;
  int64_t reach_;
};

/// Of `tokens` to validate on.
int64_t length_of_block(int64_t tokens) {
  constexpr int64_t kMostBlocks = 256, kFewBlocks = 8, kShort = 64, kLong = 4096;
  const int64_t block = std::clamp(tokens / kFewBlocks, kShort, kLong);
  return std::max(block, tokens / kMostBlocks);
}

std::vector<TextPiece> blocks_of(const TokenSource& source, int64_t tokens) {
  const int64_t all = source.tokens(), length = length_of_block(tokens);
  const int64_t parts = std::max<int64_t>(tokens / length, 1);
  constexpr int64_t kFar = 4096;  // so that a text of 20 GB is cut at once
  const Documents documents(source, std::min(tokens / parts / 8, kFar));
  std::vector<TextPiece> blocks;
  int64_t taken = 0, end = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t wanted = begin_of_part(tokens, i + 1, parts) - taken;
    if (wanted <= 0) continue;
    const int64_t part = begin_of_part(all, i, parts);
    const int64_t room = begin_of_part(all, i + 1, parts) - part - wanted;
    const int64_t place = part + place_in_part(i, std::max<int64_t>(room, 0) + 1);
    const int64_t first = std::max(end, documents.at_or_before(std::min(place, all - 1)));
    end = documents.at_or_after(std::min(first + wanted, all));
    if (end == first) continue;
    blocks.push_back({first, end - first});
    taken += end - first;
  }
  if (taken == all) blocks.pop_back();  // something is left to train on
  return blocks;
}

/// What of `tokens` the ascending pieces leave.
std::vector<TextPiece> between(const std::vector<TextPiece>& pieces, int64_t tokens) {
  std::vector<TextPiece> others;
  int64_t first = 0;
  for (const TextPiece& piece : pieces) {
    if (piece.first > first) others.push_back({first, piece.first - first});
    first = piece.first + piece.count;
  }
  if (first < tokens || others.empty()) others.push_back({first, tokens - first});
  return others;
}

}  // namespace

SplitText split_text(const TokenSource& source, double share, ValidationSplit split) {
  const int64_t all = source.tokens();
  const auto tokens = static_cast<int64_t>(std::floor(static_cast<double>(all) * share));
  if (split == ValidationSplit::spread && tokens > 0)
    if (std::vector<TextPiece> blocks = blocks_of(source, tokens); !blocks.empty())
      return {between(blocks, all), std::move(blocks)};
  return {{{0, all - tokens}}, {{all - tokens, tokens}}};
}

std::vector<TextPiece> shortened(std::vector<TextPiece> pieces, int64_t tokens) {
  constexpr int64_t kShort = 64;  // as a block's
  if (tokens == 0 || pieces.empty()) return pieces;
  const int64_t all = std::ssize(pieces), kept = std::clamp<int64_t>(tokens / kShort, 1, all);
  std::vector<TextPiece> some;
  int64_t taken = 0;
  for (int64_t i = 0; i < kept; ++i) {
    TextPiece piece = pieces[static_cast<size_t>(begin_of_part(all, i, kept))];
    piece.count = std::min(piece.count, begin_of_part(tokens, i + 1, kept) - taken);
    taken += piece.count;
    some.push_back(piece);
  }
  return some;
}

std::vector<int64_t> spread_items(int64_t items, int64_t count) {
  std::vector<int64_t> taken;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = begin_of_part(items, i, count);
    taken.push_back(first + place_in_part(i, begin_of_part(items, i + 1, count) - first));
  }
  return taken;
}

}  // namespace ng
