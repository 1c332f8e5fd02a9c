// Files of token ids as other programs write them, and ours read back.
#include "data/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>

#include "base/checksum.h"
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

}  // namespace
}  // namespace ng
