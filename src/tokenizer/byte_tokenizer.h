// The tokenizer that needs no training: a token is a byte, its id the byte's value.
#pragma once

#include <string>
#include <utility>

#include "base/json_fwd.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_folder.h"

namespace ng {

/// The byte 0xFF, which valid UTF-8 never contains, is the end token as well: its content is
/// "<|endoftext|>", and encode() takes that text for it, where special tokens are recognized.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEnd = 255;
  static constexpr std::string_view kEndText = "<|endoftext|>";

  ByteTokenizer() = default;
  /// With chat templates of a model.
  explicit ByteTokenizer(NamedTemplates templates)
      : templates_(std::move(templates)), chat_template_(default_template(templates_)) {}

  [[nodiscard]] std::string_view name() const override { return "bytes"; }
  [[nodiscard]] int64_t vocab() const override { return 256; }
  [[nodiscard]] bool ids_are_bytes() const override { return true; }
  [[nodiscard]] std::optional<int32_t> end_token() const override { return kEnd; }
  [[nodiscard]] std::optional<int32_t> pad_token() const override { return kEnd; }
  [[nodiscard]] std::string_view bos() const override { return kEndText; }
  [[nodiscard]] std::string_view chat_template() const override { return chat_template_; }
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] std::string decode_text(std::span<const int32_t> ids) const override;
  [[nodiscard]] int64_t text_bytes(int32_t id) const override { return id == kEnd ? 0 : 1; }
  void save(const std::string& folder) const override;

 private:
  [[nodiscard]] PlacedTokens encoded(std::string_view text, SpecialTokens special,
                                     bool with_starts) const override;

  NamedTemplates templates_;
  std::string chat_template_;
};

/// What save() writes as tokenizer.json: a byte-level BPE without merges.
[[nodiscard]] std::string byte_tokenizer_json();

/// Throws Error where a tokenizer.json encodes otherwise than ByteTokenizer. Files of before the
/// end token, whose 256th name is that of the byte, are taken too.
void require_byte_tokenizer(const Json& json, const std::string& place);

}  // namespace ng
