#include "tokenizer/byte_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "tokenizer/byte_names.h"
#include "tokenizer/tokenizer_parts.h"

namespace ng {
namespace {

constexpr int kBytes = 256;

OrderedJson end_token_json() {
  return special_token_json(ByteTokenizer::kEnd, ByteTokenizer::kEndText);
}

}  // namespace

PlacedTokens ByteTokenizer::encoded(std::string_view text, SpecialTokens special,
                                    bool /*with_starts*/) const {
  PlacedTokens tokens;
  tokens.ids.reserve(text.size());
  tokens.starts.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const bool ends = special == SpecialTokens::recognized && text.substr(at).starts_with(kEndText);
    tokens.ids.push_back(ends ? kEnd : static_cast<uint8_t>(text[at]));
    tokens.starts.push_back(static_cast<int64_t>(at));
    at += ends ? kEndText.size() : 1;
  }
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text(ids.size(), '\0');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kBytes) {
      throw Error({.key = "token id",
                   .problem = fmt::format("{}", ids[i]),
                   .remedy = "the tokenizer \"bytes\" has ids from 0 to 255"});
    }
    text[i] = static_cast<char>(ids[i]);
  }
  return text;
}

std::string ByteTokenizer::decode_text(std::span<const int32_t> ids) const {
  std::string text;
  for (size_t done = 0; done < ids.size();) {
    const std::span<const int32_t> rest = ids.subspan(done);
    const auto end = std::find(rest.begin(), rest.end(), kEnd);
    const auto count = static_cast<size_t>(end - rest.begin());
    text += as_utf8(decode(rest.first(count)));
    if (end != rest.end()) text += kEndText;
    done += count + 1;
  }
  return text;
}

std::string byte_tokenizer_json() {
  OrderedJson vocab = OrderedJson::object();
  for (int byte = 0; byte < ByteTokenizer::kEnd; ++byte)
    vocab[byte_names()[static_cast<size_t>(byte)]] = byte;
  vocab[ByteTokenizer::kEndText] = ByteTokenizer::kEnd;
  OrderedJson model = bpe_json(false);
  model["vocab"] = std::move(vocab);
  model["merges"] = OrderedJson::array();
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", {end_token_json()}},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level_json(false, true, false)},
                            {"post_processor", nullptr},
                            {"decoder", byte_level_json(false, true, false)},
                            {"model", model}};
  return json_text(json, 1) + "\n";
}

void ByteTokenizer::save(const std::string& folder) const {
  const OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"clean_up_tokenization_spaces", false},
                              {"eos_token", kEndText},
                              {"pad_token", kEndText}};
  write_tokenizer_files(folder, {.json = byte_tokenizer_json(),
                                 .json_place = folder,
                                 .config = json_text(config, 1) + "\n",
                                 .config_place = folder,
                                 .templates = templates_});
}

void require_byte_tokenizer(const Json& json, const std::string& place) {
  const JsonObject file(json, place);
  const auto refuse = [&](std::string_view key, std::string_view found) {
    file.refuse(key, fmt::format("{} is not supported", found),
                "the byte-level tokenizer that \"tokenizer = \"bytes\"\" writes");
  };
  for (const char* key : {"normalizer", "post_processor"})
    if (file.has(key) && !file.at(key).empty()) refuse(key, brief(file.at(key)));
  const bool has_end = file.has("added_tokens") && !file.at("added_tokens").empty();
  if (has_end && file.at("added_tokens") != Json::array({Json(end_token_json())}))
    refuse("added_tokens", brief(file.at("added_tokens")));
  const JsonObject pieces = file.object("pre_tokenizer");
  if (pieces.text("type") != "ByteLevel" || pieces.boolean_or("add_prefix_space", true)) {
    refuse("pre_tokenizer", brief(pieces.value()));
  }
  const JsonObject model = file.object("model");
  if (model.text_or("type", "BPE") != "BPE") refuse("model.type", brief(model.at("type")));
  if (!model.at("merges").empty()) refuse("model.merges", brief(model.at("merges")));
  const JsonObject vocab = model.object("vocab");
  if (vocab.value().size() != kBytes) refuse("model.vocab", brief(vocab.value()));
  for (int byte = 0; byte < kBytes; ++byte) {
    const bool is_end = has_end && byte == ByteTokenizer::kEnd;
    const std::string name(is_end ? ByteTokenizer::kEndText
                                  : std::string_view(byte_names()[static_cast<size_t>(byte)]));
    (void)vocab.integer(name, byte, byte);
  }
}

}  // namespace ng
