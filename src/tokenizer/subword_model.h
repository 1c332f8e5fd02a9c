// What makes tokens of a piece of text: BPE over bytes, BPE over characters, or Unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/bpe_merges.h"
#include "tokenizer/piece_cache.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// The best way of Unigram to the end of a prefix.
struct BestPath {
  double score = 0;
  int32_t id = -1;  ///< of its last piece; -1: none comes here
  uint32_t bytes = 0;
};

/// What one thread needs to encode, one text after another with the same tokenizer.
struct EncodeScratch {
  PieceCache cache;
  MergeScratch merges;
  std::vector<Symbol> symbols;
  std::vector<BestPath> paths;
  std::vector<SplitScratch> splits;  ///< by pattern
  std::string old_characters;
};

/// Tokens as they are appended.
struct TokenList {
  PlacedTokens tokens;
  bool with_starts = false;

  void add(int32_t id, int64_t start) {
    tokens.ids.push_back(id);
    if (with_starts) tokens.starts.push_back(start);
  }
};

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Appends the tokens of a piece of valid UTF-8 that begins at byte `at`.
  virtual void encode(std::string_view piece, int64_t at, EncodeScratch& scratch,
                      TokenList& out) const = 0;
};

/// Names of tokens and their ids.
struct Vocabulary {
  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> names;  ///< by id; empty: an id without a name

  [[nodiscard]] int32_t id_of(const std::string& name) const {
    const auto found = ids.find(name);
    return found == ids.end() ? -1 : found->second;
  }
  /// Throws Error, by `owner`'s key, where the name or the id is another's already.
  void add(const std::string& name, int64_t id, const JsonObject& owner, const std::string& key);
};

/// Bytes that a name of byte_names() stands for; a name with another character, which no merge can
/// reach, stands for itself.
[[nodiscard]] std::string bytes_of_name(std::string_view name);

/// "<0x0A>", as sentencepiece names a byte.
[[nodiscard]] std::string byte_fallback_name(uint8_t byte);

/// The model of a tokenizer.json; its names go to `vocabulary`. `is_of_bytes`: pieces are given to
/// it in byte names. Throws Error naming what is not supported.
[[nodiscard]] std::unique_ptr<SubwordModel> read_subword_model(const JsonObject& model,
                                                               bool is_of_bytes,
                                                               Vocabulary& vocabulary);
[[nodiscard]] std::unique_ptr<SubwordModel> read_unigram(const JsonObject& model,
                                                         Vocabulary& vocabulary);

}  // namespace ng
