// Pieces of a text, one behind the other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/token_source.h"

namespace ng {

/// Tokens [first, first + count) of a source.
struct TextPiece {
  int64_t first = 0;
  int64_t count = 0;
};

class TextPieces {
 public:
  TextPieces(std::shared_ptr<const TokenSource> source, std::vector<TextPiece> pieces);

  [[nodiscard]] const TokenSource& source() const { return *source_; }
  [[nodiscard]] const std::vector<TextPiece>& pieces() const { return pieces_; }
  /// Of all pieces.
  [[nodiscard]] int64_t tokens() const { return tokens_; }

  /// As TokenSource has them, `first` counted through the pieces. What was cut off from the token
  /// before it begins a document.
  void read(int64_t first, std::span<int32_t> out) const;
  void read_mask(int64_t first, std::span<float> out) const;
  void read_begins(int64_t first, std::span<uint8_t> out) const;

  /// How many tokens but the first are targets: it is predicted by nothing.
  [[nodiscard]] int64_t targets() const;
  /// The same where nothing predicts the first of any piece.
  [[nodiscard]] int64_t targets_within_pieces() const;
  /// Bytes of text behind the latter.
  [[nodiscard]] int64_t bytes_within_pieces() const;

  /// Where the pieces lie: " FIRST COUNT FIRST COUNT".
  [[nodiscard]] std::string places() const;

 private:
  /// Of tokens [first, first + count), those in one piece: `count` of the source from `from` on,
  /// which are at `at` among those asked for.
  struct Stretch {
    int64_t from;
    size_t at, count;
    bool begins_piece;
  };
  void each_stretch(int64_t first, int64_t count,
                    const std::function<void(const Stretch&)>& act) const;

  std::shared_ptr<const TokenSource> source_;
  std::vector<TextPiece> pieces_;
  std::vector<int64_t> begins_;  ///< by piece: tokens before it
  int64_t tokens_ = 0;
};

}  // namespace ng
