// Files of token ids as trainers keep them: where the ids lie, and their loss mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ng {

enum class TokenFileKind : uint8_t { llmc, bintok, npy, uint16 };

/// What flags and messages call them.
inline constexpr std::pair<std::string_view, TokenFileKind> kTokenFileKinds[] = {
    {"llmc", TokenFileKind::llmc},
    {"bintok", TokenFileKind::bintok},
    {"npy", TokenFileKind::npy},
    {"uint16", TokenFileKind::uint16}};

struct TokenFileLayout {
  TokenFileKind kind = TokenFileKind::llmc;
  uint64_t first = 0;                 ///< byte where the ids begin
  int width = 4;                      ///< bytes of an id, little-endian: 1, 2, 4 or 8
  bool is_signed = false;             ///< how an id that no vocabulary has is to be read
  int64_t tokens = 0;                 ///< ids
  std::optional<uint64_t> mask = {};  ///< byte where the mask begins: a bit a token, lowest first
  std::optional<int64_t> vocab = {};  ///< all ids are below it, says the file
};

/// llm.c's headers: 256 little-endian i32, magic, version and count first.
/// [karpathy/llm.c llmc/dataloader.h]
inline constexpr int32_t kLlmcMagicU16 = 20240520, kLlmcVersionU16 = 1;
inline constexpr int32_t kLlmcMagicU32 = 20240801, kLlmcVersionU32 = 7;
/// llmq's: this, then i32 version, bytes of an id, count; of version 2 vocabulary and whether there
/// is a mask. [IST-DASLab/llmq src/training/dataloader.cpp]
inline constexpr std::string_view kBintokMagic = "BIN.TOK\n";
inline constexpr uint64_t kTokenHeaderBytes = 1024;  ///< of both

/// Whether a file that begins so is one of them; one of bare ids cannot be told.
[[nodiscard]] bool begins_as_token_file(std::string_view begin);
/// The same for a file.
[[nodiscard]] bool is_token_file(const std::string& path);

/// What the first bytes of a file say (up to kTokenHeaderBytes are enough); `size`: bytes of the
/// whole file. With `bare_uint16`, a file that begins as none of the kinds is u16 ids from its
/// first byte on. Throws Error at `place` for a header that contradicts itself or the size.
[[nodiscard]] TokenFileLayout parse_token_layout(std::string_view begin, uint64_t size,
                                                 bool bare_uint16, const std::string& place);

}  // namespace ng
