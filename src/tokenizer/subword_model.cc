#include "tokenizer/subword_model.h"

#include <array>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/byte_names.h"

namespace ng {
namespace {

constexpr int64_t kMaxId = 1 << 24;
constexpr std::string_view kMark = "\u2581";  // sentencepiece's space

/// BPE over bytes, each by its name a token.
class ByteBpe final : public SubwordModel {
 public:
  ByteBpe(BpeMerges merges, const JsonObject& model, const Vocabulary& vocabulary)
      : merges_(std::move(merges)), ignore_merges_(model.boolean_or("ignore_merges", false)) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const std::string& name = byte_names()[byte];
      byte_ids_[byte] = vocabulary.id_of(name);
      if (byte_ids_[byte] < 0)
        model.refuse("vocab", fmt::format("byte {} is missing: \"{}\"", byte, name),
                     "a token for each of the 256 byte names");
    }
    for (const auto& [name, id] : vocabulary.ids) {
      const std::string bytes = bytes_of_name(name);
      if (ignore_merges_) whole_.emplace(bytes, id);
      if (bytes_.size() <= size_t(id)) bytes_.resize(size_t(id) + 1);
      bytes_[size_t(id)] = static_cast<uint32_t>(bytes.size());
    }
  }

  [[nodiscard]] std::string_view name() const override { return "bpe"; }

  void encode(std::string_view piece, int64_t at, EncodeScratch& scratch,
              TokenList& out) const override {
    PieceCache::Entry* const entry = scratch.cache.entry_of(piece);
    if (entry != nullptr && entry->is_of(piece)) return append(entry->tokens(), at, out);
    const size_t first = out.tokens.ids.size();
    merge(piece, scratch.symbols, scratch.merges);
    for (const Symbol& symbol : scratch.symbols) {
      out.add(symbol.id, at);
      at += symbol.bytes;
    }
    if (entry != nullptr) entry->keep(piece, std::span(out.tokens.ids).subspan(first));
  }

 private:
  void append(std::span<const int32_t> ids, int64_t at, TokenList& out) const {
    out.tokens.ids.insert(out.tokens.ids.end(), ids.begin(), ids.end());
    if (!out.with_starts) return;
    for (int32_t id : ids) {
      out.tokens.starts.push_back(at);
      at += bytes_[size_t(id)];
    }
  }

  void merge(std::string_view piece, std::vector<Symbol>& symbols, MergeScratch& scratch) const {
    symbols.clear();
    if (ignore_merges_) {
      const auto found = whole_.find(std::string(piece));
      if (found != whole_.end()) {
        symbols.push_back({found->second, static_cast<uint32_t>(piece.size())});
        return;
      }
    }
    for (char c : piece) symbols.push_back({byte_ids_[static_cast<uint8_t>(c)], 1});
    merges_.apply(symbols, scratch);
  }

  BpeMerges merges_;
  bool ignore_merges_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<uint32_t> bytes_;  ///< by id
  std::unordered_map<std::string, int32_t> whole_;
};

/// BPE over characters, as sentencepiece does it: a character without a token becomes its bytes,
/// or the token for what is unknown.
class CharacterBpe final : public SubwordModel {
 public:
  CharacterBpe(BpeMerges merges, bool words_are_apart, const JsonObject& model,
               Vocabulary& vocabulary)
      : merges_(std::move(merges)),
        words_are_apart_(words_are_apart && vocabulary.id_of(std::string(kMark)) >= 0),
        fuse_unknown_(model.boolean_or("fuse_unk", false)),
        ignore_merges_(model.boolean_or("ignore_merges", false)),
        ids_(vocabulary.ids) {
    for (const auto& [name, id] : ids_)
      if (character_bytes(name[0]) == name.size()) characters_.emplace(code_point(name), id);
    read_bytes(model);
    if (model.has("unk_token")) {
      unknown_ = vocabulary.id_of(model.text("unk_token"));
      if (unknown_ < 0)
        model.refuse("unk_token", brief(model.at("unk_token")), "a token of the vocabulary");
    } else if (!has_all_bytes_) {
      model.refuse("unk_token", "missing, and a token for some byte too",
                   "a token for characters that have none");
    }
  }

  [[nodiscard]] std::string_view name() const override { return "sentencepiece-bpe"; }

  // Where no merge joins the end of a word to the mark of the next, words are merged one by one.
  void encode(std::string_view piece, int64_t at, EncodeScratch& scratch,
              TokenList& out) const override {
    while (words_are_apart_ && !ignore_merges_ && !piece.empty()) {
      size_t word = 0;
      while (piece.substr(word).starts_with(kMark)) word += kMark.size();
      word = std::min(piece.find(kMark, word), piece.size());
      encode_word(piece.substr(0, word), at, scratch, out);
      piece.remove_prefix(word);
      at += static_cast<int64_t>(word);
    }
    if (!piece.empty()) encode_word(piece, at, scratch, out);
  }

 private:
  void read_bytes(const JsonObject& model) {
    byte_ids_.fill(-1);
    if (!model.boolean_or("byte_fallback", false)) return;
    has_all_bytes_ = true;
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(byte_fallback_name(static_cast<uint8_t>(byte)));
      if (found != ids_.end()) byte_ids_[byte] = found->second;
      has_all_bytes_ = has_all_bytes_ && found != ids_.end();
    }
  }

  void encode_word(std::string_view word, int64_t at, EncodeScratch& scratch,
                   TokenList& out) const {
    // The cache knows ids, not of how many bytes.
    PieceCache::Entry* const entry = out.with_starts ? nullptr : scratch.cache.entry_of(word);
    if (entry != nullptr && entry->is_of(word)) {
      const std::span<const int32_t> ids = entry->tokens();
      out.tokens.ids.insert(out.tokens.ids.end(), ids.begin(), ids.end());
      return;
    }
    const size_t first = out.tokens.ids.size();
    if (const auto found = ignore_merges_ ? ids_.find(std::string(word)) : ids_.end();
        found != ids_.end()) {
      out.add(found->second, at);
      return;
    }
    split(word, scratch.symbols);
    merges_.apply(scratch.symbols, scratch.merges);
    for (const Symbol& symbol : scratch.symbols) {
      out.add(symbol.id, at);
      at += symbol.bytes;
    }
    if (entry != nullptr) entry->keep(word, std::span(out.tokens.ids).subspan(first));
  }

  // As tokenizers does it: bytes do not end a run of what is unknown but come before it.
  void split(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    uint32_t unknown_bytes = 0;
    const auto add_unknown = [&] {
      if (unknown_bytes > 0) symbols.push_back({unknown_, unknown_bytes});
      unknown_bytes = 0;
    };
    for (size_t done = 0; done < word.size();) {
      const std::string_view character = word.substr(done, character_bytes(word[done]));
      done += character.size();
      const auto bytes = static_cast<uint32_t>(character.size());
      const auto found = characters_.find(code_point(character));
      if (found != characters_.end()) {
        add_unknown();
        symbols.push_back({found->second, bytes});
      } else if (has_bytes_of(character)) {
        for (char c : character) symbols.push_back({byte_ids_[static_cast<uint8_t>(c)], 1});
      } else {
        if (!fuse_unknown_) add_unknown();
        unknown_bytes += bytes;
      }
    }
    add_unknown();
  }

  [[nodiscard]] bool has_bytes_of(std::string_view character) const {
    for (char c : character)
      if (byte_ids_[static_cast<uint8_t>(c)] < 0) return false;
    return true;
  }

  BpeMerges merges_;
  bool words_are_apart_;
  bool fuse_unknown_;
  bool ignore_merges_;
  bool has_all_bytes_ = false;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<char32_t, int32_t> characters_;
};

void read_vocab(const JsonObject& model, Vocabulary& vocabulary) {
  const JsonObject vocab = model.object("vocab");
  for (const auto& [name, id] : vocab.value().items())
    vocabulary.add(name, vocab.integer(name, 0, kMaxId), vocab, name);
}

/// A merge's two names.
std::pair<std::string, std::string> names_of(const Json& merge, const JsonObject& model,
                                             const std::string& key) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    model.refuse(key, brief(merge), R"("a b" or ["a", "b"])");
  return {text.substr(0, space), text.substr(space + 1)};
}

/// Whether no merge joins the end of a word to the mark of the next.
struct ReadMerges {
  BpeMerges merges;
  bool words_are_apart = true;
};

ReadMerges read_merges(const JsonObject& model, const Vocabulary& vocabulary) {
  const Json& list = model.at("merges", "a list of merges");
  if (!list.is_array()) model.refuse("merges", brief(list), "a list of merges");
  ReadMerges read{BpeMerges(list.size())};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string key = fmt::format("merges[{}]", i);
    const auto [left, right] = names_of(list[i], model, key);
    const int32_t ids[] = {vocabulary.id_of(left), vocabulary.id_of(right),
                           vocabulary.id_of(left + right)};
    for (int32_t id : ids)
      if (id < 0)
        model.refuse(key, fmt::format("{}: a name that is not in the vocabulary", brief(list[i])),
                     "both names and what they are together in model.vocab");
    read.merges.add(ids[0], ids[1], {static_cast<uint32_t>(i), ids[2]});
    if (right.starts_with(kMark) && !left.ends_with(kMark)) read.words_are_apart = false;
  }
  return read;
}

void refuse_unless_empty(const JsonObject& model, const char* key) {
  if (!model.has(key)) return;
  const Json& value = model.at(key);
  const bool is_empty = (value.is_string() && value.get_ref<const std::string&>().empty()) ||
                        (value.is_number() && value.get<double>() == 0);
  if (!is_empty) model.refuse(key, fmt::format("{} is not supported", brief(value)), "null");
}

}  // namespace

void Vocabulary::add(const std::string& name, int64_t id, const JsonObject& owner,
                     const std::string& key) {
  if (name.empty()) owner.refuse(key, "an empty name", "names of at least a character");
  if (id < 0 || id > kMaxId)
    owner.refuse(key, fmt::format("{}", id), fmt::format("an id from 0 to {}", kMaxId));
  if (names.size() <= size_t(id)) names.resize(size_t(id) + 1);
  std::string& known = names[size_t(id)];
  const auto [found, is_new] = ids.emplace(name, int32_t(id));
  if ((!known.empty() && known != name) || found->second != id)
    owner.refuse(key, fmt::format("{} for \"{}\": the name or the id is taken", id, name),
                 "one id for each name");
  known = name;
}

std::string bytes_of_name(std::string_view name) {
  static const std::unordered_map<std::string_view, uint8_t> kBytes = [] {
    std::unordered_map<std::string_view, uint8_t> bytes;
    for (size_t i = 0; i < 256; ++i) bytes.emplace(byte_names()[i], static_cast<uint8_t>(i));
    return bytes;
  }();
  std::string text;
  for (size_t done = 0; done < name.size();) {
    const std::string_view character = name.substr(done, character_bytes(name[done]));
    const auto found = kBytes.find(character);
    if (found == kBytes.end()) return std::string(name);
    text += static_cast<char>(found->second);
    done += character.size();
  }
  return text;
}

std::string byte_fallback_name(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::unique_ptr<SubwordModel> read_subword_model(const JsonObject& model, bool is_of_bytes,
                                                 Vocabulary& vocabulary) {
  const std::string type = model.text_or("type", model.has("merges") ? "BPE" : "Unigram");
  if (type == "Unigram" && !is_of_bytes) return read_unigram(model, vocabulary);
  if (type != "BPE")
    model.refuse("type",
                 fmt::format("\"{}\" is not supported{}", type,
                             type == "Unigram" ? " behind ByteLevel" : ""),
                 "BPE, or Unigram behind Metaspace");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse_unless_empty(model, key);
  read_vocab(model, vocabulary);
  ReadMerges read = read_merges(model, vocabulary);
  if (is_of_bytes) return std::make_unique<ByteBpe>(std::move(read.merges), model, vocabulary);
  return std::make_unique<CharacterBpe>(std::move(read.merges), read.words_are_apart, model,
                                        vocabulary);
}

}  // namespace ng
