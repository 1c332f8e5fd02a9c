// The tokenizers of Hugging Face's tokenizer.json, encoding as its library does: BPE over bytes,
// BPE as sentencepiece does it, and Unigram.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/special_ids.h"
#include "tokenizer/subword_model.h"
#include "tokenizer/token_texts.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_folder.h"

namespace ng {

/// Any number of threads may encode at once.
class SubwordTokenizer final : public Tokenizer {
 public:
  /// `json` is files.json, parsed. Throws Error naming what is malformed or not supported.
  SubwordTokenizer(const Json& json, TokenizerFiles files);
  ~SubwordTokenizer() override;

  [[nodiscard]] std::string_view name() const override { return model_->name(); }
  [[nodiscard]] int64_t vocab() const override { return texts_->count(); }
  [[nodiscard]] std::vector<std::string_view> separate_parts(std::string_view text,
                                                             size_t bytes) const override;
  [[nodiscard]] std::optional<int32_t> end_token() const override { return special_.end; }
  [[nodiscard]] std::optional<int32_t> bos_token() const override { return special_.bos; }
  [[nodiscard]] std::optional<int32_t> pad_token() const override { return special_.pad; }
  [[nodiscard]] std::span<const int32_t> text_begin() const override { return special_.before; }
  [[nodiscard]] std::string_view bos() const override { return bos_; }
  [[nodiscard]] std::string_view chat_template() const override { return chat_template_; }
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] std::string decode_text(std::span<const int32_t> ids) const override;
  [[nodiscard]] int64_t text_bytes(int32_t id) const override;
  /// The files as they were read, but for chat templates (replace_chat_templates); where there was
  /// no tokenizer_config.json, one that names the end token.
  void save(const std::string& folder) const override;

 private:
  class Scratch;
  struct Level;

  void read_added_tokens(const JsonObject& file);
  void read_settings(const JsonObject& file);
  /// Whether no token's choice looks beyond an ASCII letter and white space behind it.
  [[nodiscard]] bool keeps_words_apart() const;
  [[nodiscard]] PlacedTokens encoded(std::string_view text, SpecialTokens special,
                                     bool with_starts) const override;
  void encode_normalized(const Level& level, SpecialTokens special, EncodeScratch& scratch,
                         TokenList& out) const;
  void encode_ordinary(const Level& level, EncodeScratch& scratch, TokenList& out) const;

  TokenizerFiles files_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Vocabulary vocabulary_;
  std::unique_ptr<SubwordModel> model_;
  std::vector<NamedToken> added_;
  std::unique_ptr<AddedTokens> raw_tokens_, normalized_tokens_;
  std::unique_ptr<TokenTexts> texts_;
  SpecialIds special_;
  std::string bos_, chat_template_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> idle_;  ///< guarded by mutex_
};

}  // namespace ng
