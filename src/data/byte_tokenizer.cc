#include "data/byte_tokenizer.h"

#include <array>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/byte_source.h"

namespace ng {
namespace {

constexpr int kBytes = 256;

/// UTF-8 of a code point below U+0800.
std::string utf8(int code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 63))};
}

/// The visible characters by which tokenizer.json names bytes. [openai/gpt-2, bytes_to_unicode]
std::array<std::string, kBytes> byte_names() {
  std::array<std::string, kBytes> names;
  int next = kBytes;
  for (int byte = 0; byte < kBytes; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    names[static_cast<size_t>(byte)] = utf8(visible ? byte : next++);
  }
  return names;
}

OrderedJson byte_level(bool with_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", with_regex}};
}

}  // namespace

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids(text.size());
  for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<uint8_t>(text[i]);
  return ids;
}

PlacedTokens ByteTokenizer::encode_with_starts(std::string_view text) const {
  PlacedTokens tokens{.ids = encode(text), .starts = std::vector<int64_t>(text.size())};
  std::iota(tokens.starts.begin(), tokens.starts.end(), 0);
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text(ids.size(), '\0');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kBytes) {
      throw Error({.place = "",
                   .key = "token id",
                   .problem = fmt::format("{}", ids[i]),
                   .remedy = "the tokenizer \"bytes\" has ids from 0 to 255"});
    }
    text[i] = static_cast<char>(ids[i]);
  }
  return text;
}

std::unique_ptr<TokenSource> ByteTokenizer::open(const std::vector<std::string>& paths) const {
  return std::make_unique<ByteSource>(paths);
}

std::string byte_tokenizer_json() {
  OrderedJson vocab = OrderedJson::object();
  const std::array<std::string, kBytes> names = byte_names();
  for (int byte = 0; byte < kBytes; ++byte) vocab[names[static_cast<size_t>(byte)]] = byte;
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", vocab},
                             {"merges", OrderedJson::array()}};
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", OrderedJson::array()},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level(false)},
                            {"post_processor", nullptr},
                            {"decoder", byte_level(false)},
                            {"model", model}};
  return json_text(json, 1) + "\n";
}

void ByteTokenizer::save(const std::string& folder) const {
  write_file_atomically(join_path(folder, "tokenizer.json"), byte_tokenizer_json());
  const OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"clean_up_tokenization_spaces", false}};
  write_file_atomically(join_path(folder, "tokenizer_config.json"), json_text(config, 1) + "\n");
}

void require_byte_tokenizer(const Json& json, const std::string& place) {
  const JsonObject file(json, place);
  const auto refuse = [&](std::string_view key, std::string_view found) {
    file.refuse(key, fmt::format("{} is not supported", found),
                "the byte-level tokenizer that \"tokenizer = \"bytes\"\" writes");
  };
  for (const char* key : {"added_tokens", "normalizer", "post_processor"}) {
    if (file.has(key) && !file.at(key).empty()) refuse(key, brief(file.at(key)));
  }
  const JsonObject pieces = file.object("pre_tokenizer");
  if (pieces.text("type") != "ByteLevel" || pieces.boolean_or("add_prefix_space", true)) {
    refuse("pre_tokenizer", brief(pieces.value()));
  }
  const JsonObject model = file.object("model");
  if (model.text_or("type", "BPE") != "BPE") refuse("model.type", brief(model.at("type")));
  if (!model.at("merges").empty()) refuse("model.merges", brief(model.at("merges")));
  const JsonObject vocab = model.object("vocab");
  if (vocab.value().size() != kBytes) refuse("model.vocab", brief(vocab.value()));
  const std::array<std::string, kBytes> names = byte_names();
  for (int byte = 0; byte < kBytes; ++byte) {
    (void)vocab.integer(names[static_cast<size_t>(byte)], byte, byte);
  }
}

}  // namespace ng
