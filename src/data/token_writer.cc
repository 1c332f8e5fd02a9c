#include "data/token_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "data/npy_header.h"

namespace ng {
namespace {

constexpr int64_t kMaxOfTwoBytes = 65536;

int width_of(TokenFileKind kind, int64_t vocab) {
  return kind == TokenFileKind::bintok || vocab > kMaxOfTwoBytes ? 4 : 2;
}

void put(std::string& header, size_t at, int32_t word) {
  std::memcpy(header.data() + at, &word, sizeof(word));
}

std::string llmc_header(int width, int32_t tokens) {
  std::string header(kTokenHeaderBytes, '\0');
  put(header, 0, width == 2 ? kLlmcMagicU16 : kLlmcMagicU32);
  put(header, 4, width == 2 ? kLlmcVersionU16 : kLlmcVersionU32);
  put(header, 8, tokens);
  return header;
}

std::string bintok_header(int32_t tokens, int64_t vocab) {
  constexpr int32_t kVersion = 2, kWidth = 4, kHasMasks = 1;
  std::string header(kTokenHeaderBytes, '\0');
  std::copy(kBintokMagic.begin(), kBintokMagic.end(), header.begin());
  size_t at = kBintokMagic.size();
  for (const int32_t word : {kVersion, kWidth, tokens, static_cast<int32_t>(vocab), kHasMasks}) {
    put(header, at, word);
    at += sizeof(word);
  }
  return header;
}

}  // namespace

TokenWriter::TokenWriter(const std::string& path, TokenFileKind kind, int64_t vocab)
    : path_(path), kind_(kind), vocab_(vocab), width_(width_of(kind, vocab)), file_(path) {
  if (kind == TokenFileKind::uint16 && width_ != 2)
    throw Error({.place = path,
                 .problem = fmt::format("ids below {} do not fit two bytes", vocab),
                 .remedy = "llmc, bintok or npy"});
  const std::string begin = header();
  file_.write(begin);
}

std::string TokenWriter::header() const {
  const auto counted = static_cast<int32_t>(tokens_);
  switch (kind_) {
    case TokenFileKind::llmc:
      return llmc_header(width_, counted);
    case TokenFileKind::bintok:
      return bintok_header(counted, vocab_);
    case TokenFileKind::npy:
      return npy_header(width_ == 2 ? "<u2" : "<u4", tokens_);
    case TokenFileKind::uint16:
      return "";
  }
  return "";
}

void TokenWriter::add(std::span<const int32_t> ids, std::span<const uint8_t> mask) {
  const auto foreign =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= vocab_; });
  if (foreign != ids.end())
    throw Error({.place = path_,
                 .key = fmt::format("token {}", tokens_ + (foreign - ids.begin())),
                 .problem = fmt::format("id {}", *foreign),
                 .remedy = fmt::format("ids below the vocabulary, {}", vocab_)});
  const bool counts_in_i32 = kind_ == TokenFileKind::llmc || kind_ == TokenFileKind::bintok;
  if (counts_in_i32 && tokens_ + std::ssize(ids) > std::numeric_limits<int32_t>::max())
    throw Error({.place = path_,
                 .problem = "more than 2,147,483,647 tokens, which its header cannot count",
                 .remedy = "several files, or npy"});
  for (const int32_t id : ids) file_.write(&id, static_cast<size_t>(width_));
  if (kind_ == TokenFileKind::bintok) add_mask(mask);
  tokens_ += std::ssize(ids);
}

void TokenWriter::add_mask(std::span<const uint8_t> mask) {
  for (size_t i = 0; i < mask.size(); ++i) {
    const size_t bit = static_cast<size_t>(tokens_) + i;
    if (bit % 8 == 0) mask_bits_.push_back(0);
    mask_bits_.back() = static_cast<uint8_t>(mask_bits_.back() | mask[i] << (bit % 8));
  }
}

void TokenWriter::finish() {
  file_.write(mask_bits_.data(), mask_bits_.size());
  const std::string begin = header();
  file_.write_at(0, begin.data(), begin.size());
  file_.commit();
}

}  // namespace ng
