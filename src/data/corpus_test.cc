#include "data/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "support/scratch_folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

class CorpusTest : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }

  std::string file(std::string_view name, std::string_view content) const {
    std::string path = join_path(folder_, name);
    write_file_atomically(path, content);
    return path;
  }
  Corpus open(std::vector<std::string> train, double share = 0.0) const {
    return open_corpus({.place = "run.toml", .train = std::move(train), .validation_share = share},
                       ByteTokenizer());
  }
};

/// A batch and its memory.
struct Batch {
  explicit Batch(int64_t sequences, int64_t context)
      : range{.first = 0, .count = sequences, .context = context},
        inputs(static_cast<size_t>(sequences * context), -1),
        targets(inputs.size(), -1),
        mask(inputs.size(), -1.0f) {}
  [[nodiscard]] BatchSpans spans() { return {inputs, targets, mask}; }

  SequenceRange range;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  std::vector<float> mask;
};

/// All byte values, so that a token tells its place modulo 251.
std::string counting_text(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i % 251);
  return text;
}

TEST_F(CorpusTest, SequencesRunOnAcrossFiles) {
  const std::string whole = counting_text(700);
  const Corpus corpus = open({file("a", whole.substr(0, 3)), file("b", ""),
                              file("c", whole.substr(3, 1)), file("d", whole.substr(4))});
  EXPECT_EQ(corpus.train_tokens(), 700);
  Batch batch(400, 5);
  corpus.train_batch(1, 0, batch.range, batch.spans());
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    EXPECT_EQ(batch.targets[i], (batch.inputs[i] + 1) % 251);
    EXPECT_TRUE(i % 5 == 0 || batch.inputs[i] == batch.targets[i - 1]);
    EXPECT_EQ(batch.mask[i], 1.0f);
  }
}

TEST_F(CorpusTest, DrawsDependOnSeedAndStepOnly) {
  const Corpus corpus = open({file("a", counting_text(5000))});
  Batch whole(8, 16);
  corpus.train_batch(7, 3, whole.range, whole.spans());
  for (const int64_t pieces : {1, 2, 4, 8}) {
    std::vector<int32_t> inputs;
    for (int64_t first = 0; first < 8; first += 8 / pieces) {
      Batch part(8 / pieces, 16);
      part.range.first = first;
      corpus.train_batch(7, 3, part.range, part.spans());
      inputs.insert(inputs.end(), part.inputs.begin(), part.inputs.end());
    }
    EXPECT_EQ(inputs, whole.inputs) << pieces;
  }
  Batch other(8, 16);
  corpus.train_batch(7, 4, other.range, other.spans());
  EXPECT_NE(other.inputs, whole.inputs);
  corpus.train_batch(8, 3, other.range, other.spans());
  EXPECT_NE(other.inputs, whole.inputs);
}

// 60 places, 24,000 draws: each is expected 400 times with deviation 19.8; 6 deviations are
// allowed.
TEST_F(CorpusTest, EveryPlaceIsDrawnEquallyOften) {
  const Corpus corpus = open({file("a", counting_text(64))});
  Batch batch(24000, 4);
  corpus.train_batch(1, 1, batch.range, batch.spans());
  std::map<int32_t, int> starts;
  for (size_t i = 0; i < batch.inputs.size(); i += 4) ++starts[batch.inputs[i]];
  EXPECT_EQ(starts.size(), 60u);
  for (const auto& [place, count] : starts) EXPECT_NEAR(count, 400, 119) << place;
}

TEST_F(CorpusTest, ShortestTextHasOnePlace) {
  const Corpus corpus = open({file("a", "abcde")});
  corpus.require_length(4);
  Batch batch(3, 4);
  corpus.train_batch(1, 1, batch.range, batch.spans());
  EXPECT_EQ(ByteTokenizer().decode(batch.inputs), "abcdabcdabcd");
  EXPECT_EQ(ByteTokenizer().decode(batch.targets), "bcdebcdebcde");
  EXPECT_EQ(error_of([&] { corpus.require_length(5); }),
            "run.toml: data.train: 5 tokens for training: at least 6 for sequences of 5: a longer "
            "text, or a smaller train.length");
}

TEST_F(CorpusTest, ASampleBeginsWithWhatThereIsOfATextBelowTheContext) {
  const auto begin_of = [&](const char* text, int64_t context) {
    return ByteTokenizer().decode(open({file("a", text)}).sample_prompt(1, context));
  };
  EXPECT_EQ(begin_of("abcdefghijklmnopqrstuvwxyz", 128), "abcdefghijklmnop");
  EXPECT_EQ(begin_of("abcde", 128), "abcd") << "the last token is predicted";
  EXPECT_EQ(begin_of("abcde", 4), "abcd");
  EXPECT_EQ(begin_of("ab", 128), "a");
}

TEST_F(CorpusTest, ValidationCountsEveryTargetOnce) {
  for (const size_t last : {2, 3, 10, 11, 12, 23}) {
    const std::string text = counting_text(100);
    const Corpus corpus = open_corpus({.place = "",
                                       .train = {file("a", text)},
                                       .validation_share = 0.0,
                                       .validation = {file("v", text.substr(0, last))}},
                                      ByteTokenizer());
    EXPECT_EQ(corpus.train_tokens(), 100);
    const int64_t windows = corpus.validation_windows(5);
    EXPECT_EQ(windows, (static_cast<int64_t>(last) - 1 + 4) / 5);
    Batch batch(windows + 2, 5);  // two windows too many
    const int64_t counted = corpus.validation_batch(batch.range, batch.spans());
    EXPECT_EQ(counted, static_cast<int64_t>(last) - 1);
    EXPECT_EQ(corpus.validation_bytes(), counted);
    std::vector<int32_t> seen;
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      if (batch.mask[i] == 1.0f) {
        seen.push_back(batch.targets[i]);
        EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      } else {
        EXPECT_EQ(batch.mask[i], 0.0f);
        EXPECT_EQ(batch.inputs[i], 0);
        EXPECT_EQ(batch.targets[i], 0);
      }
    }
    std::vector<int32_t> all(last - 1);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(seen, all);
  }
}

TEST_F(CorpusTest, TheShareMayBeTheLastPart) {
  const std::string path = file("a", counting_text(200));
  const auto open = [](std::vector<std::string> train, double share = 0.0) {
    return open_corpus({.place = "run.toml",
                        .train = std::move(train),
                        .validation_share = share,
                        .validation_split = ValidationSplit::tail},
                       ByteTokenizer());
  };
  const Corpus corpus = open({path}, 0.05);
  EXPECT_EQ(corpus.origin().from, ValidationFrom::tail);
  EXPECT_EQ(corpus.train_tokens(), 190);
  EXPECT_EQ(corpus.validation_tokens(), 10);
  Batch batch(1, 9);
  EXPECT_EQ(corpus.validation_batch(batch.range, batch.spans()), 9);
  EXPECT_EQ(batch.inputs[0], 190);
  Batch train(2000, 9);
  corpus.train_batch(1, 1, train.range, train.spans());
  EXPECT_EQ(*std::max_element(train.targets.begin(), train.targets.end()), 189);
  EXPECT_NE(open({path}, 0.1).checksum(), corpus.checksum());
  EXPECT_EQ(open({path}, 0.05).checksum(), corpus.checksum());
  EXPECT_EQ(open({path}).validation_windows(9), 0);
  EXPECT_THROW(open({path}, 1.0), Error);
  EXPECT_NE(error_of([&] {
              open({path}, 0.005).require_length(5);
            }).find("data.validation: 1 token for validation: at least 2"),
            std::string::npos);
}

// 2,500 tokens in 8 blocks: a token tells its place, and no window leaves its block.
TEST_F(CorpusTest, TheShareIsSpreadAndItsWindowsStayInBlocks) {
  const std::string path = file("a", counting_text(25'000));
  const Corpus corpus = open({path}, 0.1);
  EXPECT_EQ(corpus.train_tokens(), 22'500);
  EXPECT_EQ(corpus.validation_tokens(), 2'500);
  EXPECT_EQ(corpus.validation_pieces(), 8);
  EXPECT_EQ(corpus.origin().from, ValidationFrom::spread);
  EXPECT_EQ(corpus.origin().blocks, 8);
  const int64_t windows = corpus.validation_windows(100);
  EXPECT_EQ(windows, 8 * 4) << "312 or 313 tokens each";
  Batch batch(windows + 1, 100);
  EXPECT_EQ(corpus.validation_batch(batch.range, batch.spans()), 2'500 - 8);
  EXPECT_EQ(corpus.validation_bytes(), 2'500 - 8);
  for (size_t i = 0; i < batch.inputs.size(); ++i)
    EXPECT_TRUE(batch.mask[i] == 0 || batch.targets[i] == (batch.inputs[i] + 1) % 251) << i;
  Batch train(3000, 4);
  corpus.train_batch(1, 1, train.range, train.spans());
  int seams = 0;
  for (size_t i = 0; i < train.inputs.size(); ++i)
    seams += train.targets[i] == (train.inputs[i] + 1) % 251 ? 0 : 1;
  EXPECT_LE(seams, 3000 * 4 / 500) << "8 of 22,500 places";
  EXPECT_NE(corpus.checksum(), open({path}, 0.11).checksum());
  corpus.require_length(311);
  EXPECT_TRUE(corpus.warnings(311).empty());
  EXPECT_EQ(corpus.warnings(313).at(0).find("8 blocks to validate on have 312 tokens each, no "
                                            "more than a sequence of 313: data.validation_split"),
            0u);
}

TEST_F(CorpusTest, WhatIsCutOffBeginsADocument) {
  const Corpus corpus = open({file("a", counting_text(25'000))}, 0.1);
  Batch batch(2000, 64);
  std::vector<int32_t> keys(batch.inputs.size());
  BatchSpans spans = batch.spans();
  spans.first_keys = keys;
  corpus.train_batch(1, 1, batch.range, spans);
  int seams = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    if (i % 64 == 0) continue;
    const bool cut = batch.inputs[i] != (batch.inputs[i - 1] + 1) % 251;
    EXPECT_EQ(keys[i] != keys[i - 1], cut) << i;
    seams += cut ? 1 : 0;
  }
  EXPECT_GT(seams, 0);
}

TEST_F(CorpusTest, FindsFilesFoldersAndPatterns) {
  make_folders(join_path(folder_, "t/below"));
  file("t/b.txt", "b");
  file("t/a.txt", "a");
  file("t/c.md", "c");
  file("t/below/d.txt", "d");
  const auto text_of = [&](std::vector<std::string> names) {
    const Corpus corpus = open(std::move(names));
    Batch batch(1, corpus.train_tokens() - 1);
    corpus.train_batch(1, 1, batch.range, batch.spans());
    return ByteTokenizer().decode(batch.inputs) +
           ByteTokenizer().decode(std::span(batch.targets).last(1));
  };
  const std::string t = join_path(folder_, "t");
  EXPECT_EQ(text_of({t}), "abd");
  EXPECT_EQ(text_of({t + "/*.txt"}), "ab");
  EXPECT_EQ(text_of({t + "/c.md", t + "/?.txt"}), "cab");
  EXPECT_EQ(error_of([&] { open({t + "/*.tex"}); }),
            "run.toml: data.train: \"" + t + "/*.tex\" matches no file: check the pattern");
  EXPECT_NE(error_of([&] { open({t + "/none"}); }).find("or a prepared text: kjv"),
            std::string::npos);
  EXPECT_NE(error_of([&] { open({}); }).find("names no text"), std::string::npos);
  EXPECT_NE(error_of([&] { open({file("empty", "")}); }).find("the text is empty"),
            std::string::npos);
}

std::string line_of(std::string_view prompt, std::string_view completion) {
  return fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\"}}\n", prompt, completion);
}

// Uppercase letters are targets, and the end token of a document.
TEST_F(CorpusTest, TheMaskOfATargetIsThatOfItsToken) {
  const Corpus corpus =
      open({file("a.jsonl", line_of("abc", "DE") + line_of("f", "GHI")), file("b", "JKL"),
            file("c", "M"), file("d.jsonl", line_of("nopq", "R"))});
  EXPECT_EQ(corpus.train_tokens(), 18 + 3);
  EXPECT_TRUE(corpus.has_mask());
  Batch batch(300, 4);
  corpus.train_batch(1, 1, batch.range, batch.spans());
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const bool is_end = batch.targets[i] == ByteTokenizer::kEnd;
    EXPECT_EQ(batch.mask[i], batch.targets[i] < 'a' || is_end ? 1.0f : 0.0f);
    if (is_end || batch.inputs[i] == ByteTokenizer::kEnd) continue;
    EXPECT_EQ(batch.targets[i] & 31, (batch.inputs[i] & 31) + 1) << "in the order of the files";
  }
}

TEST_F(CorpusTest, ValidationCountsTargetsOfTheMask) {
  const std::string path = file("v.jsonl", line_of("abc", "DE") + line_of("fg", "HIJK"));
  const Corpus corpus = open_corpus({.place = "",
                                     .train = {file("a", counting_text(100))},
                                     .validation_share = 0.0,
                                     .validation = {path}},
                                    ByteTokenizer());
  EXPECT_FALSE(corpus.has_mask()) << "of training";
  EXPECT_EQ(corpus.validation_bytes(), 6) << "none is behind an end token";
  Batch batch(3, 4);
  EXPECT_EQ(corpus.validation_batch(batch.range, batch.spans()), 6 + 2);
  EXPECT_EQ(batch.mask, (std::vector<float>{0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1}));
}

TEST_F(CorpusTest, ValidationEndsAfterSoManyTokens) {
  const std::string path = file("a", counting_text(100));
  DataConfig config{.place = "",
                    .train = {path},
                    .validation_share = 0.5,
                    .validation_split = ValidationSplit::tail};
  config.validation_tokens = 9;
  const Corpus share = open_corpus(config, ByteTokenizer());
  EXPECT_EQ(share.train_tokens(), 50);
  EXPECT_EQ(share.validation_tokens(), 9);
  EXPECT_EQ(share.validation_windows(4), 2);
  EXPECT_EQ(share.validation_bytes(), 8);
  EXPECT_EQ(share.some_tokens(DataPart::validation).size(), 50u) << "to know its kind";
  config.validation_split = ValidationSplit::spread;
  const Corpus spread = open_corpus(config, ByteTokenizer());
  EXPECT_EQ(std::ssize(spread.some_tokens(DataPart::validation)), 100 - spread.train_tokens());
  config.validation = {path};
  const Corpus named = open_corpus(config, ByteTokenizer());
  EXPECT_EQ(named.validation_tokens(), 9);
  EXPECT_EQ(named.some_tokens(DataPart::validation).size(), 100u);
  config.validation_tokens = 101;
  EXPECT_EQ(open_corpus(config, ByteTokenizer()).validation_tokens(), 100);
}

TEST_F(CorpusTest, TextsWithoutPromptsHaveNoMaskAndKeepTheirChecksum) {
  const std::string text = "some words";
  const Corpus plain = open({file("a", text)});
  const auto checksum = [](const std::string& of) {
    return checksum_of(std::as_bytes(std::span(of)));
  };
  EXPECT_EQ(plain.checksum(), checksum(fmt::format("{} 0 10 10 0", checksum(text))));
  const Corpus lines = open({file("a.jsonl", "{\"text\": \"some words\"}")});
  EXPECT_FALSE(plain.has_mask());
  EXPECT_FALSE(lines.has_mask());
  const Corpus ended = open({file("b", text + "\xFF")});
  Batch want(9, 4), have(9, 4);
  ended.train_batch(1, 1, want.range, want.spans());
  lines.train_batch(1, 1, have.range, have.spans());
  EXPECT_EQ(have.inputs, want.inputs);
  EXPECT_EQ(have.targets, want.targets);
  EXPECT_EQ(have.mask, want.mask);
}

TEST_F(CorpusTest, TheChecksumTellsMasksApart) {
  const auto checksum = [&](const std::string& lines) {
    return open({file("a.jsonl", lines)}).checksum();
  };
  EXPECT_NE(checksum(line_of("ab", "cd")), checksum(line_of("a", "bcd")));
  EXPECT_EQ(checksum(line_of("ab", "cd")), checksum("\n" + line_of("ab", "cd")));
}

TEST_F(CorpusTest, APartWithoutTargetsIsRefused) {
  const std::string none =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"abcdefgh\"}]}\n";  // 36 in chatml
  const auto refusal = [&](const std::string& train, const std::string& validation) {
    const Corpus corpus = open_corpus({.place = "run.toml",
                                       .train = {file("a.jsonl", train)},
                                       .validation_share = 0.0,
                                       .validation = {file("v.jsonl", validation)},
                                       .rules = {.documents = {.chat = ChatTemplate::chatml}}},
                                      ByteTokenizer());
    return error_of([&] { corpus.require_length(4); });
  };
  EXPECT_EQ(refusal(none, line_of("a", "b")),
            "run.toml: data.train: none of its 36 tokens is a target: completions, or messages of "
            "an assistant");
  EXPECT_EQ(refusal(line_of("abcd", "e"), none).substr(0, 41),
            "run.toml: data.validation: none of its 36");
  EXPECT_EQ(refusal(line_of("abcd", "e"), line_of("a", "b")), "accepted");
}

/// Resident memory of this process in bytes. [proc(5), statm]
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

TEST_F(CorpusTest, AHugeTextStaysOnDisk) {
  const std::string path = file("huge", counting_text(50 << 20));
  const int64_t before = resident_bytes();
  const Corpus corpus = open({path}, 0.05);
  EXPECT_EQ(corpus.checksum().size(), 32u);
  Batch batch(4096, 128);
  for (uint32_t step = 0; step < 4; ++step) {
    corpus.train_batch(1, step, batch.range, batch.spans());
  }
  EXPECT_LT(resident_bytes() - before, 20 << 20);
}

}  // namespace
}  // namespace ng
