// How codes and scales lie in files and in the memory of other libraries. Layout only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "narrowgauge/export.h"

namespace narrowgauge {

/// Codes of 1 to 16 bits as one little-endian bit string, ⌈count · bits / 8⌉ bytes: FP4 and int4
/// two in a byte, the even element low; FP6 four in three bytes. Throws Error for a code of more
/// bits.
[[nodiscard]] NARROWGAUGE_API std::vector<uint8_t> pack_codes(std::span<const uint16_t> codes,
                                                              int bits);
/// The reverse; throws Error where `bytes` are not those of `count` codes.
[[nodiscard]] NARROWGAUGE_API std::vector<uint16_t> unpack_codes(std::span<const uint8_t> bytes,
                                                                 int bits, int64_t count);

/// Scale codes (rows, cols), row by row, in tiles of 128 × 4 padded with zeros, as Blackwell's
/// tensor cores and cuBLAS read them. Throws Error where the size is not rows · cols.
[[nodiscard]] NARROWGAUGE_API std::vector<uint8_t> swizzle_scales(std::span<const uint8_t> scales,
                                                                  int64_t rows, int64_t cols);
/// The reverse, without the padding.
[[nodiscard]] NARROWGAUGE_API std::vector<uint8_t> unswizzle_scales(
    std::span<const uint8_t> swizzled, int64_t rows, int64_t cols);

/// GGUF's blocks of E2M1 codes. mxfp4: 17 bytes, an E8M0 code and 32 elements. nvfp4: 36 bytes,
/// four E4M3 codes and 64 elements in blocks of 16; the scale of the tensor is stored elsewhere.
enum class Gguf : uint8_t { mxfp4, nvfp4 };

/// Codes and scale codes, both in order. Throws Error where they are not whole blocks.
struct CodesAndScales {
  std::vector<uint16_t> codes;
  std::vector<uint8_t> scales;
};
[[nodiscard]] NARROWGAUGE_API std::vector<uint8_t> pack_gguf(Gguf kind,
                                                             std::span<const uint16_t> codes,
                                                             std::span<const uint8_t> scales);
[[nodiscard]] NARROWGAUGE_API CodesAndScales unpack_gguf(Gguf kind,
                                                         std::span<const uint8_t> blocks);

}  // namespace narrowgauge
