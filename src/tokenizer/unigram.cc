// Unigram: the pieces whose scores have the largest sum. [Kudo 2018, 3.2]
#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/subword_model.h"

namespace ng {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score [sentencepiece, kUnkPenalty]

/// Names, to find all that begin a text.
class Trie {
 public:
  /// `names` are sorted and each there once; their place in the list is what matches give.
  explicit Trie(const std::vector<std::pair<std::string, int32_t>>& names) {
    nodes_.emplace_back();
    for (std::vector<Group> groups{{0, 0, names.size(), 0}}; !groups.empty();) {
      const Group group = groups.back();
      groups.pop_back();
      fill(group, names, groups);
    }
    for (uint32_t child = nodes_[0].first; child < nodes_[0].first + nodes_[0].children; ++child)
      roots_[nodes_[child].byte] = child;
  }

  /// Calls body(bytes, id) for each name that `text` begins with, the shortest first.
  template <class Body>
  void for_prefixes(std::string_view text, const Body& body) const {
    uint32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child_of(node, static_cast<uint8_t>(text[at]));
      if (node == 0) return;
      if (nodes_[node].id >= 0) body(at + 1, nodes_[node].id);
    }
  }

 private:
  struct Node {
    uint32_t first = 0;  ///< its children follow one another, by byte
    uint16_t children = 0;
    uint8_t byte = 0;
    int32_t id = -1;
  };
  using Names = std::vector<std::pair<std::string, int32_t>>;

  /// Names that share their first `depth` bytes, which lead to `node`.
  struct Group {
    uint32_t node;
    size_t begin, end, depth;
  };

  // Gives a node its id and its children, which wait in `groups`.
  void fill(Group group, const Names& names, std::vector<Group>& groups) {
    auto [node, begin, end, depth] = group;
    if (begin < end && names[begin].first.size() == depth) nodes_[node].id = names[begin++].second;
    nodes_[node].first = static_cast<uint32_t>(nodes_.size());
    for (size_t i = begin; i < end; ++i) {
      const char byte = names[i].first[depth];
      if (i == begin || byte != names[i - 1].first[depth]) {
        groups.push_back({static_cast<uint32_t>(nodes_.size()), i, i, depth + 1});
        nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
        ++nodes_[node].children;
      }
      groups.back().end = i + 1;
    }
  }

  [[nodiscard]] uint32_t child_of(uint32_t node, uint8_t byte) const {
    if (node == 0) return roots_[byte];
    const auto begin = nodes_.begin() + nodes_[node].first;
    const auto end = begin + nodes_[node].children;
    const auto found = std::lower_bound(
        begin, end, byte, [](const Node& child, uint8_t wanted) { return child.byte < wanted; });
    return found == end || found->byte != byte ? 0 : static_cast<uint32_t>(found - nodes_.begin());
  }

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> roots_{};  ///< 0: no name begins so
};

class Unigram final : public SubwordModel {
 public:
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, int32_t unknown, bool bytes)
      : ids_(vocabulary.ids),
        trie_(sorted(vocabulary)),
        scores_(std::move(scores)),
        unknown_(unknown) {
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
    byte_ids_.fill(-1);
    for (size_t byte = 0; bytes && byte < 256; ++byte)
      byte_ids_[byte] = vocabulary.id_of(byte_fallback_name(static_cast<uint8_t>(byte)));
  }

  [[nodiscard]] std::string_view name() const override { return "unigram"; }

  void encode(std::string_view piece, int64_t at, EncodeScratch& scratch,
              TokenList& out) const override {
    find_paths(piece, scratch.paths);
    // From the end back to the begin, then forward; what is unknown fuses.
    std::vector<Symbol>& symbols = scratch.symbols;
    symbols.clear();
    for (size_t end = piece.size(); end > 0; end -= scratch.paths[end].bytes) {
      const BestPath& last = scratch.paths[end];
      if (last.id == unknown_ && !symbols.empty() && symbols.back().id == unknown_)
        symbols.back().bytes += last.bytes;
      else
        symbols.push_back({last.id, last.bytes});
    }
    for (size_t i = symbols.size(); i-- > 0;) {
      const Symbol& symbol = symbols[i];
      const std::string_view text = piece.substr(0, symbol.bytes);
      if (symbol.id == unknown_)
        add_unknown(text, at, out);
      else
        out.add(symbol.id, at);
      piece.remove_prefix(symbol.bytes);
      at += symbol.bytes;
    }
  }

 private:
  static std::vector<std::pair<std::string, int32_t>> sorted(const Vocabulary& vocabulary) {
    std::vector<std::pair<std::string, int32_t>> names(vocabulary.ids.begin(),
                                                       vocabulary.ids.end());
    std::sort(names.begin(), names.end());
    return names;
  }

  // By prefix its best path, the first among equals. The sums are in double, from left to right.
  void find_paths(std::string_view piece, std::vector<BestPath>& paths) const {
    paths.assign(piece.size() + 1, {});
    for (size_t begin = 0; begin < piece.size();) {
      const double score = paths[begin].score;
      const size_t character = character_bytes(piece[begin]);
      const auto reach = [&](size_t bytes, int32_t id, double all) {
        BestPath& path = paths[begin + bytes];
        if (path.id < 0 || all > path.score) path = {all, id, static_cast<uint32_t>(bytes)};
      };
      bool has_character = false;
      trie_.for_prefixes(piece.substr(begin), [&](size_t bytes, int32_t id) {
        reach(bytes, id, scores_[size_t(id)] + score);
        has_character = has_character || bytes == character;
      });
      if (!has_character) reach(character, unknown_, unknown_score_ + score);
      begin += character;
    }
  }

  void add_unknown(std::string_view text, int64_t at, TokenList& out) const {
    const auto found = ids_.find(std::string(text));
    const bool has_bytes = std::all_of(
        text.begin(), text.end(), [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
    if (found != ids_.end())
      out.add(found->second, at);
    else if (has_bytes)
      for (char c : text) out.add(byte_ids_[static_cast<uint8_t>(c)], at);
    else
      out.add(unknown_, at);
  }

  std::unordered_map<std::string, int32_t> ids_;
  Trie trie_;
  std::vector<double> scores_;  ///< by id
  int32_t unknown_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace

std::unique_ptr<SubwordModel> read_unigram(const JsonObject& model, Vocabulary& vocabulary) {
  const Json& vocab = model.at("vocab", "a list of pieces and their scores");
  if (!vocab.is_array() || vocab.empty())
    model.refuse("vocab", brief(vocab), "a list of names and scores");
  std::vector<double> scores;
  for (size_t id = 0; id < vocab.size(); ++id) {
    const Json& entry = vocab[id];
    const std::string key = fmt::format("vocab[{}]", id);
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      model.refuse(key, brief(entry), "[name, score]");
    vocabulary.add(entry[0].get<std::string>(), static_cast<int64_t>(id), model, key);
    scores.push_back(entry[1].get<double>());
  }
  const int64_t unknown = model.integer("unk_id", 0, static_cast<int64_t>(vocab.size()) - 1);
  return std::make_unique<Unigram>(vocabulary, std::move(scores), static_cast<int32_t>(unknown),
                                   model.boolean_or("byte_fallback", false));
}

}  // namespace ng
