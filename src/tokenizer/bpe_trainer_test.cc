#include "tokenizer/bpe_trainer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "tokenizer/piece_counts.h"

namespace ng {
namespace {

const std::string kGolden = NG_SOURCE_DIR "/tests/golden/tokenizers/";
constexpr size_t kMaxBytes = 1 << 20;

Json train(const std::vector<std::string_view>& texts, const BpeTraining& training,
           int threads = 1) {
  const TrainedBpe trained = train_bpe(texts, training, {threads}, [](int64_t, int64_t) {});
  return parse_json(tokenizer_json_of(trained, training), "");
}

// Merges in the older spelling "a b" as ["a", "b"].
Json as_pairs(const Json& merges) {
  Json pairs = Json::array();
  for (const Json& merge : merges) {
    if (merge.is_array()) {
      pairs.push_back(merge);
      continue;
    }
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    pairs.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return pairs;
}

// training.json of what tokenizers 0.23.3 learned of the texts that are here too.
TEST(BpeTrainer, LearnsWhatTokenizersLearns) {
  int trainings = 0;
  for (const Json& golden : read_json_file(kGolden + "training.json", kMaxBytes)) {
    const std::string source = golden.at("text");
    const bool is_here = source == "tinyshakespeare.txt" || source == "gutenberg_valid.txt";
    if (!is_here) continue;
    const std::string name = source == "gutenberg_valid.txt" ? "emma.txt" : source;
    const std::string text = read_file(kGolden + name, kMaxBytes);
    BpeTraining training{.vocab = golden.at("vocab_size"),
                         .min_frequency = golden.at("min_frequency"),
                         .pattern = golden.at("pattern"),
                         .compose = golden.at("nfc"),
                         .special_tokens = golden.at("special_tokens")};
    const std::string_view first =
        std::string_view(text).substr(0, golden.at("first_bytes").get<size_t>());
    const std::string file = golden.at("file");
    const Json expected = read_json_file(kGolden + file, kMaxBytes);
    const Json ours = train({first}, training);
    EXPECT_EQ(ours["model"]["vocab"], expected["model"]["vocab"]) << file;
    EXPECT_EQ(ours["model"]["merges"], as_pairs(expected["model"]["merges"])) << file;
    for (const char* key : {"normalizer", "pre_tokenizer", "decoder"})
      EXPECT_EQ(ours[key], expected[key]) << file << " " << key;
    EXPECT_EQ(ours["model"]["ignore_merges"], expected["model"]["ignore_merges"]) << file;
    EXPECT_EQ(ours["added_tokens"][0], expected["added_tokens"][0]) << file;
    ++trainings;
  }
  EXPECT_EQ(trainings, 3);
}

// Pairs in runs of one letter overlap. Expected: BpeTrainer of tokenizers 0.23.3 on the same words.
TEST(BpeTrainer, CountsPairsThatOverlap) {
  const std::string text = "baaaaaaa aaaaaaaaaaaaaaa caaa aaaaa baaaa";
  const Json model = train({text}, {.vocab = 266, .pattern = "gpt2"})["model"];
  const char* const expected =
      R"([["a", "a"], ["aa", "aa"], ["aa", "a"], ["b", "aaaa"], ["\u0120", "aaaa"], ["c", "aaa"],)"
      R"( ["\u0120", "baaaa"], ["\u0120", "caaa"], ["aaaa", "aaaa"], ["baaaa", "aaa"]])";
  EXPECT_EQ(model["merges"], Json::parse(expected));
}

TEST(BpeTrainer, DoesNotDependOnThreads) {
  const std::string text = read_file(kGolden + "emma.txt", kMaxBytes);
  std::string long_text;
  for (int i = 0; i < 12; ++i) long_text += text;
  const BpeTraining training{.vocab = 500, .pattern = "o200k", .special_tokens = {"<a>"}};
  EXPECT_EQ(train({long_text, text}, training, 1), train({text, long_text}, training, 3));
}

TEST(BpeTrainer, CutsStretchesWhereEveryPatternHasABorder) {
  const std::string text = read_file(kGolden + "tinyshakespeare.txt", kMaxBytes);
  const std::string hostile = text + "a \n\nb!\n/c\n \nd e.\n'll\ng";
  for (const char* pattern : {"gpt2", "llama3", "qwen2", "o200k"}) {
    PieceCounts whole = count_pieces({hostile}, pattern, false, {1});
    const auto stretches = stretches_of(hostile, 40);
    EXPECT_GT(stretches.size(), 1000u);
    EXPECT_EQ(count_pieces(stretches, pattern, false, {1}), whole) << pattern;
  }
}

TEST(BpeTrainer, RefusesAVocabularyWithoutRoomForBytes) {
  EXPECT_THROW((void)train({"a"}, {.vocab = 256, .pattern = "gpt2", .special_tokens = {"<e>"}}),
               Error);
  EXPECT_THROW((void)train({"a"}, {.vocab = 300, .pattern = "gpt3"}), Error);
  const Json json = train({""}, {.vocab = 300, .pattern = "gpt2"});
  EXPECT_EQ(json["model"]["vocab"].size(), 256u);
  EXPECT_EQ(json["model"]["vocab"]["!"], 0) << "by code point of the name";
}

}  // namespace
}  // namespace ng
