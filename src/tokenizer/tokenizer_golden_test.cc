// What tokenizers 0.23.3 makes of texts, and what transformers makes of chats with them.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/known_patterns.h"
#include "tokenizer/rewritten_text.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/tokenizer.h"

namespace ng {
namespace {

const std::string kGoldenKinds = NG_SOURCE_DIR "/tests/golden/";
constexpr size_t kMaxGoldenBytes = 1 << 20;

using Ids = std::vector<int32_t>;

Json golden_kind(const std::string& name) {
  return read_json_file(kGoldenKinds + name, kMaxGoldenBytes);
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = std::string("tokenizers/") + GetParam();
  const std::unique_ptr<Tokenizer> tokenizer_ = open_tokenizer(kGoldenKinds + name_ + ".json");
};

TEST_P(GoldenTokenizer, EncodesAndDecodesEachCase) {
  const Json cases = golden_kind(name_ + ".cases.json");
  EXPECT_GE(cases.size(), 30u);
  for (const Json& one : cases) {
    const auto text = one.at("text").get<std::string>();
    const Ids ids = tokenizer_->encode(text);
    EXPECT_EQ(ids, one.at("ids").get<Ids>()) << text;
    EXPECT_EQ(tokenizer_->decode_text(ids), one.at("decoded").get<std::string>()) << text;
  }
}

// tokenizers 0.23.3 with encode_special_tokens: <|endoftext|> and <mask> are special, "word" and
// "  \n" are not.
TEST(GoldenTokenizers, SpecialTokensMayBeText) {
  const auto llama3 = open_tokenizer(kGoldenKinds + "tokenizers/llama3.json");
  const std::string text = "a<|endoftext|>b word words <mask>x  \n<|endoftext|>";
  EXPECT_EQ(llama3->encode(text), (Ids{65, 0, 66, 221, 701, 272, 518, 83, 702, 88, 700, 0}));
  EXPECT_EQ(
      llama3->encode(text, SpecialTokens::text),
      (Ids{65,  28, 92,  69, 274, 79, 70,  84, 69, 88, 84,  92, 30, 66, 221, 701, 272, 518, 83,
           265, 77, 290, 75, 30,  88, 700, 28, 92, 69, 274, 79, 70, 84, 69,  88,  84,  92,  30}));
}

// The tokens of a text are those of the same text with places, which ascend from its begin.
TEST_P(GoldenTokenizer, KnowsWhereTokensBegin) {
  for (const Json& one : golden_kind(name_ + ".cases.json")) {
    const auto text = one.at("text").get<std::string>();
    const PlacedTokens placed = tokenizer_->encode_with_starts(text);
    EXPECT_EQ(placed.ids, tokenizer_->encode(text)) << text;
    ASSERT_EQ(placed.starts.size(), placed.ids.size());
    for (size_t i = 0; i < placed.starts.size(); ++i) {
      EXPECT_GE(placed.starts[i], i == 0 ? 0 : placed.starts[i - 1]) << text;
      EXPECT_LT(placed.starts[i], int64_t(text.size())) << text;
    }
    EXPECT_TRUE(placed.starts.empty() || placed.starts[0] == 0) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer,
                         testing::Values("gpt2", "llama3", "qwen", "o200k", "metaspace", "prepend",
                                         "unigram", "starcoder", "command-r", "qwen35",
                                         "deepseek-llm", "deepseek-coder", "deepseek-v3", "mixed",
                                         "nfkc"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

constexpr char32_t kPoints = 0x110000, kFirstSurrogate = 0xD800, kBehindSurrogates = 0xE000;

/// FNV-1a over texts, each with a byte behind that no text has.
class Checksum {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<uint8_t>(c));
    add(uint8_t{0xFF});
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  void add(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3; }
  uint64_t value_ = 0xCBF29CE484222325;
};

template <class Body>
void each_character(const Body& body) {
  for (char32_t point = 0; point < kPoints; ++point)
    if (point < kFirstSurrogate || point >= kBehindSurrogates) body(point, utf8_of(point));
}

// Every character that there is, alone and where others compose and order themselves around it.
TEST(GoldenUnicode, NormalizesAllCharacters) {
  const Json golden = golden_kind("tokenizers/unicode.json");
  const std::pair<const char*, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::nfc},
                                                        {"NFD", UnicodeForm::nfd},
                                                        {"NFKC", UnicodeForm::nfkc},
                                                        {"NFKD", UnicodeForm::nfkd}};
  for (const auto& [name, form] : kForms) {
    Checksum alone, between;
    each_character([&, form = form](char32_t, const std::string& character) {
      RewrittenText one(character, false);
      one.normalize(form);
      alone.add(one.text());
      const std::string around = "e" + character + "\u0323\u0301\u1161";
      RewrittenText many(around, false);
      many.normalize(form);
      between.add(many.text());
    });
    EXPECT_EQ(alone.text(), golden.at(name).at("alone")) << name;
    EXPECT_EQ(between.text(), golden.at(name).at("between")) << name;
  }
}

TEST(GoldenUnicode, DigitsAreThoseOfTokenizers) {
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  const SplitPattern digits(std::string(known_pattern("numerics")), "", "");
  SplitScratch scratch;
  std::string buffer;
  each_character([&](char32_t point, const std::string& character) {
    const std::string text = "a" + character;
    Pieces pieces(digits, digits.searched(text, with_old_characters(text, buffer), scratch),
                  scratch);
    Pieces::Piece piece{};
    if (!pieces.next(piece) || piece.end == text.size()) return;
    if (!runs.empty() && runs.back().second == point - 1)
      runs.back().second = point;
    else
      runs.emplace_back(point, point);
  });
  EXPECT_EQ(Json(runs), golden_kind("tokenizers/unicode.json").at("digits"));
}

TEST(GoldenChats, AreTokenizedAsWhole) {
  const auto tokenizer = open_tokenizer(kGoldenKinds + "tokenizers/o200k.json");
  int chats = 0;
  for (const Json& chat : golden_kind("chat/expected.json")) {
    if (chat.at("tokenizer") != "o200k") continue;
    EXPECT_EQ(tokenizer->encode(chat.at("text").get<std::string>()), chat.at("ids").get<Ids>());
    ++chats;
  }
  EXPECT_GE(chats, 4);
}

}  // namespace
}  // namespace ng
