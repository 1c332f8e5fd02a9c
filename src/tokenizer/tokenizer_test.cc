#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

TEST(ByteTokenizer, EveryByteIsItsOwnId) {
  const ByteTokenizer tokenizer;
  std::string all(256, '\0');
  for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = static_cast<char>(i);
  const std::vector<int32_t> ids = tokenizer.encode(all);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i);
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_THROW((void)tokenizer.decode(std::vector<int32_t>{256}), Error);
  EXPECT_THROW((void)tokenizer.decode(std::vector<int32_t>{-1}), Error);
}

// The map of openai/gpt-2's encoder.py: bytes_to_unicode().
TEST(ByteTokenizer, NamesBytesAsGpt2Does) {
  const Json vocab = parse_json(byte_tokenizer_json(), "")["model"]["vocab"];
  EXPECT_EQ(vocab.size(), 256u);
  EXPECT_EQ(vocab["A"], 'A');
  EXPECT_EQ(vocab["\u0120"], ' ');
  EXPECT_EQ(vocab["\u010A"], '\n');
  EXPECT_EQ(vocab["\u0100"], 0);
  EXPECT_EQ(vocab["\u0143"], 0xAD);
  EXPECT_EQ(vocab["\u00FE"], 0xFE);
  EXPECT_EQ(vocab["<|endoftext|>"], 0xFF);
}

// As transformers reads the folder that save() writes.
TEST(ByteTokenizer, TheEndOfAFileIsAByteThatTextNeverHas) {
  const ByteTokenizer tokenizer;
  const PlacedTokens tokens = tokenizer.encode_with_starts("a<|endoftext|>b<|end");
  EXPECT_EQ(tokens.ids, (std::vector<int32_t>{'a', 255, 'b', '<', '|', 'e', 'n', 'd'}));
  EXPECT_EQ(tokens.starts, (std::vector<int64_t>{0, 1, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", SpecialTokens::text).size(), 13u);
  EXPECT_EQ(tokenizer.end_token(), 255);
  EXPECT_EQ(tokenizer.text_bytes(255), 0);
  EXPECT_EQ(tokenizer.decode_text(std::vector<int32_t>{'a', 0xC3, 255, 0xC3, 0xA9}),
            "a\uFFFD<|endoftext|>\u00E9");
  EXPECT_EQ(tokenizer.decode(tokens.ids),
            "a\xFF"
            "b<|end");
}

TEST(OpenTokenizer, TakesFilesOfBeforeTheEndToken) {
  Json json = parse_json(byte_tokenizer_json(), "");
  json["added_tokens"] = Json::array();
  EXPECT_THROW(require_byte_tokenizer(json, ""), Error);
  json["model"]["vocab"].erase("<|endoftext|>");
  json["model"]["vocab"]["\u00FF"] = 255;
  EXPECT_NO_THROW(require_byte_tokenizer(json, ""));
}

TEST(OpenTokenizer, KnowsWhatItWroteAndRefusesTheRest) {
  const std::string folder = join_path(testing::TempDir(), "tokenizer_test");
  remove_all(folder);
  make_folders(folder);
  EXPECT_EQ(open_tokenizer("bytes")->name(), "bytes");
  EXPECT_THROW((void)open_tokenizer(folder), Error);
  ByteTokenizer().save(folder);
  EXPECT_EQ(open_tokenizer(folder)->vocab(), 256);
  EXPECT_EQ(open_tokenizer(folder + "/tokenizer.json")->vocab(), 256);
  struct TokenizerChange {
    const char* pointer;
    Json value;
    const char* says;
  };
  const TokenizerChange kChanges[] = {
      {"/model/merges", Json::array({"a b"}), "model.merges[0]: \"a b\""},
      {"/model/vocab/A", 3, "the name or the id is taken"},
      {"/model/type", "WordPiece", "model.type: \"WordPiece\" is not supported"},
      {"/model", 5, "model: 5 is not an object"},
      {"/normalizer", Json{{"type", "Lowercase"}}, "normalizer"},
      {"/added_tokens", Json::array(), "model.vocab: byte 255 is missing"},
  };
  for (const TokenizerChange& change : kChanges) {
    Json json = parse_json(byte_tokenizer_json(), "");
    json[Json::json_pointer(change.pointer)] = change.value;
    write_file_atomically(folder + "/tokenizer.json", json.dump());
    try {
      (void)open_tokenizer(folder);
      ADD_FAILURE() << change.pointer;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(change.says), std::string::npos) << error.what();
    }
  }
  remove_all(folder);
}

}  // namespace
}  // namespace ng
