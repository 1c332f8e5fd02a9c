// What each token of a vocabulary stands for in decoded text: the decoder of a tokenizer.json.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/subword_model.h"

namespace ng {

/// An added token and how it looks in normalized text.
struct NamedToken {
  AddedToken token;
  std::string normalized;  ///< its content, where that is looked for as it is
};

class TokenTexts {
 public:
  /// Throws Error naming what is not supported of file's decoder. `is_of_bytes`: names are byte
  /// names; added tokens stand for their content.
  TokenTexts(const JsonObject& file, bool is_of_bytes, const std::vector<std::string>& names,
             std::span<const NamedToken> added);

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(texts_.size()); }
  [[nodiscard]] const std::string& of(int32_t id) const { return texts_[size_t(id)]; }
  /// One text behind the other, without the space that sentencepiece puts before the first.
  /// Ids are in [0, count()).
  [[nodiscard]] std::string joined(std::span<const int32_t> ids) const;

 private:
  struct Replacement {
    std::string from, to;
  };
  void read_steps(const JsonObject& decoder);
  [[nodiscard]] std::string text_of(const std::string& name) const;

  std::vector<std::string> texts_;  ///< by id
  std::vector<Replacement> replacements_;
  bool has_byte_names_ = false;  ///< "<0x0A>" is a byte
  std::string stripped_;         ///< taken from the begin of the whole, up to ...
  int64_t times_ = 0;            ///< ... so many times
};

}  // namespace ng
