// Texts that are files of token ids: parts of them, what is refused, and how soon they are open.
#include "data/token_file_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <numeric>

#include "base/checksum.h"
#include "base/files.h"
#include "base/sanitized_testing.h"
#include "data/corpus.h"
#include "data/npy_header.h"
#include "data/prefixed_source.h"
#include "data/token_writer.h"
#include "support/golden_file.h"
#include "support/scratch_folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

class TokenSources : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
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

/// Ids 0 ... count - 1 modulo 251, as .npy of `Stored`, that of token `at` replaced.
template <class Stored>
void write_ids(const std::string& path, std::string_view dtype, int64_t count, int64_t at,
               Stored id) {
  std::vector<Stored> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<Stored>(i % 251);
  ids[static_cast<size_t>(at)] = id;
  std::string file = npy_header(dtype, count);
  file.append(reinterpret_cast<const char*>(ids.data()), sizeof(Stored) * ids.size());
  write_file_atomically(path, file);
}

TEST_F(TokenSources, RefuseIdsThatTheTokenizerLacksWhereTheyAreRead) {
  const std::string file = in("t.npy");
  write_ids<uint16_t>(file, "<u2", 200'000, 150'001, 256);
  const TokenFileSource source(file, false, ByteTokenizer());
  std::vector<int32_t> before(150'001), with(2);
  source.read(0, before);
  EXPECT_EQ(before.back(), 150'000 % 251);
  source.read(150'002, with);
  const std::string refusal = file +
                              ": token 150001: id 256: ids below 256, which the tokenizer "
                              "\"bytes\" has, or the tokenizer of the file";
  EXPECT_EQ(error_of([&] { source.read(150'000, with); }), refusal);
  EXPECT_EQ(error_of([&] { (void)source.target_bytes(0, 200'000); }), refusal);
  EXPECT_EQ(source.target_bytes(0, 150'001), 150'001);
}

TEST_F(TokenSources, NoBatchHoldsAForeignId) {
  write_ids<uint16_t>(in("t.npy"), "<u2", 400, 200, 256);
  const Corpus corpus = open_corpus({.place = "run.toml",
                                     .train = {in("t.npy")},
                                     .validation_share = 0.25,
                                     .validation_split = ValidationSplit::tail},
                                    ByteTokenizer());
  EXPECT_EQ(corpus.validation_bytes(), 99) << "behind it";
  std::vector<int32_t> inputs(8), targets(8);
  std::vector<float> mask(8);
  int refused = 0;
  for (uint32_t step = 0; step < 200; ++step) {
    const std::string said = error_of([&] {
      corpus.train_batch(1, step, {.first = 0, .count = 1, .context = 8}, {inputs, targets, mask});
    });
    if (said != "accepted") {
      ++refused;
      EXPECT_NE(said.find("t.npy: token 200: id 256: "), std::string::npos) << said;
    } else {
      EXPECT_LT(*std::max_element(inputs.begin(), inputs.end()), 256);
      EXPECT_LT(*std::max_element(targets.begin(), targets.end()), 256);
    }
  }
  EXPECT_GT(refused, 0);  // 9 of 292 places
  EXPECT_LT(refused, 40);
}

TEST_F(TokenSources, AForeignIdIsSaidAsItIsStored) {
  const auto said = [&] {
    const TokenFileSource source(in("t.npy"), false, ByteTokenizer());
    std::vector<int32_t> ids(20);
    const std::string error = error_of([&] { source.read(0, ids); });
    const size_t key = error.find("token 9: "), end = error.find(": ids below");
    return key == std::string::npos ? error : error.substr(key + 9, end - key - 9);
  };
  write_ids<int64_t>(in("t.npy"), "<i8", 20, 9, -1);
  EXPECT_EQ(said(), "id -1");
  write_ids<int64_t>(in("t.npy"), "<i8", 20, 9, int64_t{1} << 40);
  EXPECT_EQ(said(), "id 1099511627776");
  write_ids<int64_t>(in("t.npy"), "<i8", 20, 9, INT64_MIN);
  EXPECT_EQ(said(), "id -9223372036854775808");
  write_ids<int32_t>(in("t.npy"), "<i4", 20, 9, -2);
  EXPECT_EQ(said(), "id -2");
  write_ids<uint32_t>(in("t.npy"), "<u4", 20, 9, UINT32_MAX);
  EXPECT_EQ(said(), "id 4294967295");
}

// As NumPy stores integers unless told otherwise; more than are read at once.
TEST_F(TokenSources, IdsOfEightBytesAreRead) {
  write_ids<int64_t>(in("t.npy"), "<i8", 40'000, 39'000, 250);
  const ReadFile file(in("t.npy"));
  std::vector<uint32_t> ids(40'000);
  read_token_ids(file, token_layout_of(file, false), 0, ids);
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], i == 39'000 ? 250 : i % 251);
}

TEST_F(TokenSources, AMaskOfOnesIsNone) {
  const std::vector<int32_t> ids(2'000'003);
  std::vector<uint8_t> mask(ids.size(), 1);
  const auto write = [&] {
    TokenWriter writer(in("t.bin"), TokenFileKind::bintok, 256);
    writer.add(ids, mask);
    writer.finish();
    return std::make_unique<TokenFileSource>(in("t.bin"), false, ByteTokenizer());
  };
  EXPECT_FALSE(write()->has_mask());
  mask.back() = 0;
  const auto source = write();
  EXPECT_TRUE(source->has_mask());
  EXPECT_EQ(source->target_tokens(0, 2'000'003), 2'000'002);
  EXPECT_EQ(source->target_tokens(2'000'002, 1), 0);
  EXPECT_EQ(source->target_tokens(2'000'003, 0), 0);
}

/// A .npy of zeros, two bytes each, that takes no room; false where the file system stores them.
bool write_sparse(const std::string& path, int64_t tokens) {
  const std::string header = npy_header("<u2", tokens);
  write_file_atomically(path, header);
  const auto bytes = static_cast<int64_t>(header.size()) + 2 * tokens;
  struct stat info {};
  return ::truncate(path.c_str(), bytes) == 0 && ::stat(path.c_str(), &info) == 0 &&
         info.st_blocks < 1 << 12;
}

void write_at(const std::string& path, int64_t token, uint16_t id) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(128 + 2 * token);
  file.write(reinterpret_cast<const char*>(&id), sizeof(id));
}

TEST_F(TokenSources, AHugeFileOpensAtOnce) {
  constexpr int64_t kTokens = 4'000'000'000;
  const std::string file = in("huge.npy");
  if (!write_sparse(file, kTokens)) GTEST_SKIP() << "no sparse files in " << folder_;
  write_at(file, kTokens / 2, 999);
  const std::clock_t started = std::clock();  // of this process: others may be at work
  const Corpus corpus = open_corpus({.place = "run.toml", .train = {file}}, ByteTokenizer());
  corpus.require_length(1024);
  EXPECT_EQ(corpus.checksum().size(), 32u);
  // Sums of the pieces that are read take a second under sanitizers, of all of it two minutes.
  EXPECT_LT(std::clock() - started, (kSanitized ? 10 : 1) * CLOCKS_PER_SEC);
  EXPECT_EQ(corpus.train_tokens(), kTokens / 20 * 19);
  const TokenFileSource source(file, false, ByteTokenizer());
  std::vector<int32_t> ids(2);
  EXPECT_NE(error_of([&] { source.read(kTokens / 2 - 1, ids); }).find("token 2000000000: id 999: "),
            std::string::npos);
}

// Of pieces only, where the file is longer than is read at each start.
TEST_F(TokenSources, ChecksumsTellFilesApart) {
  const auto checksum = [&] {
    return TokenFileSource(in("t.npy"), false, ByteTokenizer()).checksum();
  };
  write_ids<uint16_t>(in("t.npy"), "<u2", 200'000, 0, 0);
  const std::string whole = checksum();
  std::vector<uint32_t> ids(200'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(i % 251);
  EXPECT_EQ(whole, checksum_of(std::as_bytes(std::span(ids))));
  write_at(in("t.npy"), 77'777, 1);
  EXPECT_NE(checksum(), whole);

  const int64_t longer = kTokensOfChecksum + 1;
  if (!write_sparse(in("t.npy"), longer)) GTEST_SKIP() << "no sparse files in " << folder_;
  const std::string zeros = checksum();
  EXPECT_EQ(zeros.size(), 32u);
  EXPECT_EQ(checksum(), zeros);
  for (const int64_t token : {int64_t{0}, longer - 1}) {
    write_at(in("t.npy"), token, 1);
    EXPECT_NE(checksum(), zeros) << token;
    write_at(in("t.npy"), token, 0);
  }
  EXPECT_EQ(checksum(), zeros);
  ASSERT_TRUE(write_sparse(in("t.npy"), longer + 1));
  EXPECT_NE(checksum(), zeros) << "of one token more";
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

  const std::shared_ptr<const TokenSource> lines = open_texts({in("d.jsonl")}, ByteTokenizer(), {});
  const Corpus corpus("t", {lines, {{0, 0}}}, {lines, {{0, 5}}});
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
  writer.add(std::vector<int32_t>(9), std::vector<uint8_t>(9, 1));
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
  EXPECT_EQ(done.size(), 3u) << "each line; the others are read in place";
  EXPECT_EQ(done.back(), size("d.jsonl") - 1) << "all but its line end";

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
  Corpus corpus("t", {source, {{0, 0}}}, {source, {{0, source->tokens()}}});
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
