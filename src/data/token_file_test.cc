// Files of token ids as other programs write them, and ours read back.
#include "data/token_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/files.h"
#include "data/corpus.h"
#include "data/npy_header.h"
#include "data/prefixed_source.h"
#include "data/token_file_source.h"
#include "data/token_writer.h"
#include "support/golden_file.h"
#include "support/scratch_folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

const std::string kShards = NG_SOURCE_DIR "/tests/golden/shards/";

/// Ids and mask of a whole file.
struct Shard {
  std::vector<uint32_t> ids;
  std::vector<uint8_t> mask;  ///< empty: none

  explicit Shard(const std::string& path, bool bare_uint16 = false) {
    const ReadFile file(path);
    const TokenFileLayout layout = token_layout_of(file, bare_uint16);
    ids.resize(static_cast<size_t>(layout.tokens));
    read_token_ids(file, layout, 0, ids);
    if (!layout.mask) return;
    mask.resize(ids.size());
    read_token_mask(file, layout, 0, mask);
  }
};

std::string error_of_header(const std::string& header, uint64_t size) {
  return error_of([&] { (void)parse_token_layout(header, size, false, "f.bin"); });
}

std::string words(std::initializer_list<int32_t> values) {
  std::string text(kTokenHeaderBytes, '\0');
  size_t at = 0;
  for (const int32_t value : values) {
    std::memcpy(text.data() + at, &value, sizeof(value));
    at += sizeof(value);
  }
  return text;
}

std::string bintok(std::initializer_list<int32_t> values) {
  return (std::string(kBintokMagic) + words(values)).substr(0, kTokenHeaderBytes);
}

TEST(TokenFiles, HoldWhatOtherProgramsWrote) {
  const GoldenFile golden("shards/tokens");
  const std::vector<int64_t> wide = golden.integers("ids"), bits = golden.integers("mask");
  const std::vector<uint32_t> ids(wide.begin(), wide.end());
  for (const char* name : {"llmc_v1.bin", "llmc_v7.bin", "bintok_v1.bin", "bintok_v2_masks.bin",
                           "tokens_u16.npy", "tokens_i32.npy"})
    EXPECT_EQ(Shard(kShards + name).ids, ids) << name;
  EXPECT_EQ(Shard(kShards + "nanogpt_u16.bin", true).ids, ids);
  const std::vector<uint32_t> rows = Shard(kShards + "tokens_u32_2d.npy").ids;
  EXPECT_EQ(rows, std::vector<uint32_t>(ids.begin(), ids.end() - std::ssize(ids) % 7));
  EXPECT_EQ(Shard(kShards + "bintok_v2_masks.bin").mask,
            std::vector<uint8_t>(bits.begin(), bits.end()));
}

TEST(TokenFiles, AreToldByTheirFirstBytes) {
  for (const char* name : {"llmc_v1.bin", "llmc_v7.bin", "bintok_v1.bin", "bintok_v2_masks.bin",
                           "tokens_u16.npy", "tokens_i32.npy", "tokens_u32_2d.npy"})
    EXPECT_TRUE(is_token_file(kShards + name)) << name;
  EXPECT_FALSE(is_token_file(kShards + "nanogpt_u16.bin"));
  EXPECT_FALSE(begins_as_token_file(""));
  EXPECT_FALSE(begins_as_token_file("BIN.TOK"));
}

TEST(TokenFiles, RefuseHeadersThatContradict) {
  EXPECT_EQ(error_of_header("text", 4),
            "f.bin: no file of token ids: one of llm.c, BIN.TOK or .npy");
  EXPECT_EQ(error_of_header(words({20240520, 7, 1}), 1026),
            "f.bin: version 7 of llm.c's token files with magic 20240520: version 1");
  EXPECT_EQ(error_of_header(words({20240520, 1, 3}), 1028),
            "f.bin: 3 tokens of 2 bytes do not fit its 1028 bytes: a whole file");
  EXPECT_EQ(error_of_header(words({20240801, 7, -1}), 1024), "f.bin: -1 tokens: at least 0");
  EXPECT_EQ(error_of_header(words({20240520}).substr(0, 6), 6),
            "f.bin: its header ends after 6 bytes: a whole file");
  EXPECT_EQ(error_of_header(bintok({3, 4, 0}), 1024), "f.bin: version 3 of BIN.TOK: 1 or 2");
  EXPECT_EQ(error_of_header(bintok({1, 2, 0}), 1024), "f.bin: tokens of 2 bytes in BIN.TOK: 4");
  EXPECT_EQ(error_of_header(bintok({2, 4, 9, 50, 1}), 1024 + 36 + 1),
            "f.bin: 9 tokens of 4 bytes and their mask do not fit its 1061 bytes: a whole file");
  EXPECT_EQ(error_of_header(bintok({2, 4, 0, 0, 1}), 1024), "f.bin: a vocabulary of 0: at least 1");
  std::string npy = npy_header("<f4", 2);
  EXPECT_EQ(error_of_header(npy, npy.size() + 8),
            "f.bin: token ids of dtype <f4: |u1 <u2 <u4 <i4 <i8");
  npy = npy_header("<u2", int64_t{1} << 62);
  EXPECT_NE(error_of_header(npy, npy.size() + 8).find("do not fit"), std::string::npos);
  npy.replace(npy.find("False"), 5, "True ");
  EXPECT_NE(error_of_header(npy, npy.size()).find("do not fit"), std::string::npos);
}

class WrittenTokens : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
};

TEST_F(WrittenTokens, ComeBack) {
  std::vector<int32_t> ids(1000);
  std::iota(ids.begin(), ids.end(), 65000);
  std::vector<uint8_t> mask(ids.size());
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0 ? 1 : 0;
  for (const auto& known : kTokenFileKinds) {
    const std::string_view name = known.first;
    const TokenFileKind kind = known.second;
    const bool fits = kind != TokenFileKind::uint16;
    const std::string file = in(std::string(name));
    if (!fits) {
      EXPECT_NE(error_of([&] { TokenWriter(file, kind, 70000); }).find("do not fit two bytes"),
                std::string::npos);
      continue;
    }
    TokenWriter writer(file, kind, 70000);
    writer.add(std::span(ids).first(7), std::span(mask).first(7));
    writer.add(std::span(ids).subspan(7), std::span(mask).subspan(7));
    writer.finish();
    const Shard read(file);
    EXPECT_EQ(read.ids, std::vector<uint32_t>(ids.begin(), ids.end())) << name;
    EXPECT_EQ(read.mask, kind == TokenFileKind::bintok ? mask : std::vector<uint8_t>()) << name;
  }
}

TEST_F(WrittenTokens, TakeTwoBytesWhereTheVocabularyAllows) {
  const std::vector<int32_t> ids = {0, 65535};
  const std::vector<uint8_t> mask = {1, 1};
  TokenWriter writer(in("t"), TokenFileKind::llmc, 65536);
  writer.add(ids, mask);
  writer.finish();
  EXPECT_EQ(file_size(in("t")), kTokenHeaderBytes + 4);
  EXPECT_EQ(Shard(in("t")).ids, (std::vector<uint32_t>{0, 65535}));
}

TEST_F(WrittenTokens, AreRefusedWholeForAForeignId) {
  const std::vector<int32_t> ids = {1, 2, 300};
  const std::vector<uint8_t> mask(3, 1);
  EXPECT_EQ(error_of([&] {
              TokenWriter writer(in("t"), TokenFileKind::npy, 256);
              writer.add(ids, mask);
              writer.finish();
            }),
            in("t") + ": token 2: id 300: ids below the vocabulary, 256");
  EXPECT_FALSE(is_file(in("t")));
}

class TokenSources : public WrittenTokens {
 protected:
  /// A BIN.TOK file of ids 0 ... count - 1 modulo 251, every third no target.
  std::string shard(int64_t count) const {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    std::vector<uint8_t> mask(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(i % 251);
      mask[i] = i % 3 != 0;
    }
    TokenWriter writer(in("shard.bin"), TokenFileKind::bintok, 256);
    writer.add(ids, mask);
    writer.finish();
    return in("shard.bin");
  }
};

TEST_F(TokenSources, ReadAnyPart) {
  const TokenFileSource source(shard(200000), false, ByteTokenizer());
  EXPECT_EQ(source.tokens(), 200000);
  EXPECT_TRUE(source.has_mask());
  std::vector<int32_t> ids(1001);
  std::vector<float> mask(ids.size());
  for (const int64_t first : {0, 1, 7, 65530, 198999}) {
    source.read(first, ids);
    source.read_mask(first, mask);
    int64_t targets = 0;
    for (int64_t i = 0; i < 1001; ++i) {
      ASSERT_EQ(ids[static_cast<size_t>(i)], (first + i) % 251);
      ASSERT_EQ(mask[static_cast<size_t>(i)], (first + i) % 3 != 0 ? 1.0f : 0.0f);
      targets += (first + i) % 3 != 0;
    }
    EXPECT_EQ(source.target_tokens(first, 1001), targets);
    EXPECT_EQ(source.target_bytes(first, 1001), targets);
  }
  EXPECT_EQ(source.target_tokens(0, 200000), 200000 - 66667);
}

TEST_F(TokenSources, RefuseIdsThatTheTokenizerLacks) {
  TokenWriter writer(in("t.npy"), TokenFileKind::npy, 1000);
  writer.add(std::vector<int32_t>{5, 256}, std::vector<uint8_t>{1, 1});
  writer.finish();
  EXPECT_EQ(error_of([&] { TokenFileSource(in("t.npy"), false, ByteTokenizer()); }),
            in("t.npy") +
                ": token 1: id 256: ids below 256, which the tokenizer \"bytes\" has, "
                "or the tokenizer of the file");
}

// As NumPy stores integers unless told otherwise; more than are read at once.
TEST_F(TokenSources, IdsOfEightBytesAreRead) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 10000; ++i) ids.push_back(i % 251);
  const auto write = [&] {
    std::string file = npy_header("<i8", std::ssize(ids));
    file.append(reinterpret_cast<const char*>(ids.data()), 8 * ids.size());
    write_file_atomically(in("t.npy"), file);
  };
  write();
  EXPECT_EQ(Shard(in("t.npy")).ids, std::vector<uint32_t>(ids.begin(), ids.end()));
  for (const int64_t foreign : {int64_t{1} << 32, int64_t{-1}}) {
    ids[9000] = foreign;
    write();
    EXPECT_NE(error_of([&] {
                TokenFileSource(in("t.npy"), false, ByteTokenizer());
              }).find("t.npy: token 9000: id 4294967295: ids below 256"),
              std::string::npos);
  }
}

TEST_F(TokenSources, OfATextTrainAsTheText) {
  write_file_atomically(in("t.txt"), std::string(300, 'a') + "<|endoftext|>b\n" + "c");
  const MappedFile text(in("t.txt"));
  TokenWriter writer(in("t.bin"), TokenFileKind::llmc, 256);
  for (const std::byte byte : text.bytes())
    writer.add(std::vector<int32_t>{std::to_integer<int32_t>(byte)}, std::vector<uint8_t>{1});
  writer.finish();
  const auto batch_of = [&](const char* name) {
    const Corpus corpus = open_corpus({.place = "run.toml", .train = {in(name)}}, ByteTokenizer());
    std::vector<int32_t> inputs(64), targets(64);
    std::vector<float> mask(64);
    corpus.train_batch(1, 2, {.first = 0, .count = 4, .context = 16}, {inputs, targets, mask});
    EXPECT_FALSE(corpus.has_mask());
    return std::pair(inputs, targets);
  };
  EXPECT_EQ(batch_of("t.txt"), batch_of("t.bin"));
}

TEST_F(TokenSources, SayWhereDocumentsBegin) {
  write_file_atomically(in("a.txt"), "abc");
  write_file_atomically(in("d.jsonl"), "{\"text\": \"x\"}\n{\"text\": \"yz\"}\n");
  TokenWriter writer(in("t.bin"), TokenFileKind::llmc, 256);
  writer.add(std::vector<int32_t>{1, 255, 2, 255, 255, 3}, std::vector<uint8_t>(6, 1));
  writer.finish();
  const auto source = open_texts({in("a.txt"), in("d.jsonl"), in("t.bin")}, ByteTokenizer(), {});
  std::vector<uint8_t> begins(14);  // a b c x . y z . 1 . 2 . . 3
  source->read_begins(0, begins);
  EXPECT_EQ(begins, (std::vector<uint8_t>{1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1}));
  std::vector<uint8_t> part(3);
  source->read_begins(10, part);
  EXPECT_EQ(part, (std::vector<uint8_t>{1, 0, 1}));

  const Corpus corpus("t", {nullptr, 0, 0},
                      {open_texts({in("d.jsonl")}, ByteTokenizer(), {}), 0, 5});
  std::vector<int32_t> inputs(6), targets(6), first_keys(6, -1);
  std::vector<float> mask(6);
  corpus.validation_batch({.first = 0, .count = 2, .context = 3},
                          {inputs, targets, mask, first_keys});
  EXPECT_EQ(first_keys, (std::vector<int32_t>{0, 0, 2, 0, 0, 0}));
}

TEST_F(TokenSources, TellHowFarTheirOpeningIs) {
  write_file_atomically(in("a.txt"), "abc");
  write_file_atomically(in("d.jsonl"), "{\"text\": \"x\"}\n{\"text\": \"yz\"}\n");
  TokenWriter writer(in("t.bin"), TokenFileKind::llmc, 256);
  const std::vector<int32_t> ids(200'000);
  writer.add(ids, std::vector<uint8_t>(ids.size(), 1));
  writer.finish();
  const std::vector<std::string> paths = {in("d.jsonl"), in("a.txt"), in("t.bin")};
  const auto size = [&](const char* name) { return static_cast<int64_t>(file_size(in(name))); };
  const int64_t bytes = size("d.jsonl") + size("a.txt") + size("t.bin");
  std::vector<int64_t> done = {0};
  (void)open_texts(paths, ByteTokenizer(), {}, [&](int64_t read, int64_t of) {
    EXPECT_EQ(of, bytes);
    EXPECT_GT(read, done.back());
    done.push_back(read);
  });
  EXPECT_GT(done.size(), 5u) << "each line, and pieces of the token file";
  EXPECT_EQ(done.back(), bytes - 1024) << "all but its header";

  struct Stop {};
  EXPECT_THROW((void)open_texts(paths, ByteTokenizer(), {}, [](int64_t, int64_t) { throw Stop(); }),
               Stop);
}

// lm_eval.utils.get_rolling_token_windows of 7 tokens, windows of 3: the last window's inputs reach
// back, and only its last target counts.
TEST_F(TokenSources, BehindAPrefixEveryTokenCountsOnce) {
  write_file_atomically(in("t.txt"), "abcdefg");
  const auto source =
      std::make_shared<PrefixedSource>(255, open_texts({in("t.txt")}, ByteTokenizer(), {}));
  Corpus corpus("t", {source, 0, 0}, {source, 0, source->tokens()});
  corpus.fill_last_window();
  ASSERT_EQ(corpus.validation_windows(3), 3);
  EXPECT_EQ(corpus.validation_bytes(), 7);
  std::vector<int32_t> inputs(9), targets(9);
  std::vector<float> mask(9);
  EXPECT_EQ(
      corpus.validation_batch({.first = 0, .count = 3, .context = 3}, {inputs, targets, mask}), 7);
  EXPECT_EQ(inputs, (std::vector<int32_t>{255, 'a', 'b', 'c', 'd', 'e', 'd', 'e', 'f'}));
  EXPECT_EQ(targets, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e', 'f', 'e', 'f', 'g'}));
  EXPECT_EQ(mask, (std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0, 1}));
}

}  // namespace
}  // namespace ng
