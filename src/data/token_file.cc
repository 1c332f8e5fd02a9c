#include "data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/npy_header.h"

namespace ng {
namespace {

/// A header of i32, as llm.c and llmq have it.
class Words {
 public:
  Words(std::string_view begin, std::string place) : begin_(begin), place_(std::move(place)) {}

  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy) const {
    throw Error({.place = place_, .problem = problem, .remedy = remedy});
  }
  [[nodiscard]] int32_t at(size_t byte) const {
    int32_t word;
    if (begin_.size() < byte + sizeof(word))
      refuse(fmt::format("its header ends after {} bytes", begin_.size()), "a whole file");
    std::memcpy(&word, begin_.data() + byte, sizeof(word));
    return word;
  }
  [[nodiscard]] int64_t count(size_t byte) const {
    const int32_t tokens = at(byte);
    if (tokens < 0) refuse(fmt::format("{} tokens", tokens), "at least 0");
    return tokens;
  }
  /// Throws Error where a file of `size` bytes does not end where its ids and mask do.
  void require_size(const TokenFileLayout& layout, uint64_t size) const {
    const auto tokens = static_cast<uint64_t>(layout.tokens);
    uint64_t ids = 0, end = 0;
    const bool overflows =
        __builtin_mul_overflow(tokens, static_cast<uint64_t>(layout.width), &ids) ||
        __builtin_add_overflow(ids, layout.first + (layout.mask ? (tokens + 7) / 8 : 0), &end);
    if (overflows || end != size)
      refuse(fmt::format("{} tokens of {} bytes{} do not fit its {} bytes", tokens, layout.width,
                         layout.mask ? " and their mask" : "", size),
             "a whole file");
  }

 private:
  std::string_view begin_;
  std::string place_;
};

bool begins_with_word(std::string_view begin, int32_t word) {
  int32_t first;
  if (begin.size() < sizeof(first)) return false;
  std::memcpy(&first, begin.data(), sizeof(first));
  return first == word;
}

TokenFileLayout llmc_layout(const Words& words) {
  const bool is_u16 = words.at(0) == kLlmcMagicU16;
  const int32_t version = words.at(4), known = is_u16 ? kLlmcVersionU16 : kLlmcVersionU32;
  if (version != known)
    words.refuse(
        fmt::format("version {} of llm.c's token files with magic {}", version, words.at(0)),
        fmt::format("version {}", known));
  return {.kind = TokenFileKind::llmc,
          .first = kTokenHeaderBytes,
          .width = is_u16 ? 2 : 4,
          .tokens = words.count(8)};
}

TokenFileLayout bintok_layout(const Words& words) {
  const int32_t version = words.at(8), width = words.at(12);
  if (version != 1 && version != 2)
    words.refuse(fmt::format("version {} of BIN.TOK", version), "1 or 2");
  if (width != 4) words.refuse(fmt::format("tokens of {} bytes in BIN.TOK", width), "4");
  TokenFileLayout layout{.kind = TokenFileKind::bintok,
                         .first = kTokenHeaderBytes,
                         .width = 4,
                         .tokens = words.count(16)};
  if (version == 1) return layout;
  const int32_t vocab = words.at(20), masks = words.at(24);
  if (vocab < 1) words.refuse(fmt::format("a vocabulary of {}", vocab), "at least 1");
  if (masks != 0 && masks != 1)
    words.refuse(fmt::format("{} where BIN.TOK says whether there are masks", masks), "0 or 1");
  layout.vocab = vocab;
  if (masks == 1) layout.mask = layout.first + 4 * static_cast<uint64_t>(layout.tokens);
  return layout;
}

TokenFileLayout npy_layout(std::string_view begin, const Words& words, const std::string& place) {
  constexpr std::pair<std::string_view, int> kWidths[] = {
      {"|u1", 1}, {"<u2", 2}, {"<u4", 4}, {"<i4", 4}, {"<i8", 8}};
  const NpyHeader header = parse_npy_header(begin, place);
  const auto* const width = std::find_if(std::begin(kWidths), std::end(kWidths),
                                         [&](auto& known) { return known.first == header.dtype; });
  if (width == std::end(kWidths))
    words.refuse(fmt::format("token ids of dtype {}", on_one_line(header.dtype)),
                 "|u1 <u2 <u4 <i4 <i8");
  return {.kind = TokenFileKind::npy,
          .first = header.bytes,
          .width = width->second,
          .is_signed = header.dtype[1] == 'i',
          .tokens = header.values};
}

TokenFileLayout bare_layout(const Words& words, uint64_t size) {
  if (size % 2 != 0)
    words.refuse(fmt::format("{} bytes, which are no ids of 2 bytes each", size),
                 "bare uint16, or a file that says what it is");
  return {.kind = TokenFileKind::uint16,
          .first = 0,
          .width = 2,
          .tokens = static_cast<int64_t>(size / 2)};
}

}  // namespace

bool begins_as_token_file(std::string_view begin) {
  return begins_with_word(begin, kLlmcMagicU16) || begins_with_word(begin, kLlmcMagicU32) ||
         begin.starts_with(kBintokMagic) || begin.starts_with(kNpyMagic);
}

bool is_token_file(const std::string& path) {
  const ReadFile file(path);
  std::array<char, kBintokMagic.size()> begin{};
  const size_t bytes = std::min<uint64_t>(begin.size(), file.size());
  file.read(0, std::as_writable_bytes(std::span(begin).first(bytes)));
  return begins_as_token_file({begin.data(), bytes});
}

TokenFileLayout parse_token_layout(std::string_view begin, uint64_t size, bool bare_uint16,
                                   const std::string& place) {
  const Words words(begin, place);
  TokenFileLayout layout;
  if (begin.starts_with(kBintokMagic)) {
    layout = bintok_layout(words);
  } else if (begin.starts_with(kNpyMagic)) {
    layout = npy_layout(begin, words, place);
  } else if (begins_as_token_file(begin)) {
    layout = llmc_layout(words);
  } else if (bare_uint16) {
    layout = bare_layout(words, size);
  } else {
    words.refuse("no file of token ids", "one of llm.c, BIN.TOK or .npy");
  }
  words.require_size(layout, size);
  return layout;
}

}  // namespace ng
