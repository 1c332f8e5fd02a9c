#include "io/gguf/quants.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "format/codec.h"

namespace ng::io {
namespace {

constexpr int kSmallBlock = 32;
constexpr int kSuperBlock = 256;

float f16_at(const uint8_t* bytes) {
  static const ElementCodec kCodec(element_format("float16"));
  uint16_t code = 0;
  std::memcpy(&code, bytes, sizeof code);
  return kCodec.decode(code);
}

float real(int q) { return static_cast<float>(q); }

// How q's bits lie. In blocks of 32: four bits of value i, in 16 bytes the low halves first; and a
// fifth in a word of 32 bits.
int nibble_of_32(const uint8_t* bytes, int i) {
  return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}
int bit_of_32(const uint8_t* bytes, int i) { return bytes[i / 8] >> (i % 8) & 1; }

// In blocks of 256: value i is in the low halves of 32 (Q6_K: 64) bytes, then in their high halves,
// then in the next bytes; by two bits likewise in quarters of 32 bytes; one bit in an eighth of 32.
int nibble(const uint8_t* bytes, int i) {
  return bytes[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}
int wide_nibble(const uint8_t* bytes, int i) {
  return bytes[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
}
int two_bits(const uint8_t* bytes, int i) {
  return bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}
int one_bit(const uint8_t* bytes, int i) { return bytes[i % 32] >> (i / 32) & 1; }

void decode_q4_0(const uint8_t* block, float* values) {
  const float d = f16_at(block);
  for (int i = 0; i < kSmallBlock; ++i) values[i] = d * real(nibble_of_32(block + 2, i) - 8);
}

void decode_q4_1(const uint8_t* block, float* values) {
  const float d = f16_at(block), m = f16_at(block + 2);
  for (int i = 0; i < kSmallBlock; ++i) values[i] = d * real(nibble_of_32(block + 4, i)) + m;
}

int five_bits(const uint8_t* high, int i) {  // the nibbles are behind
  return nibble_of_32(high + 4, i) | bit_of_32(high, i) << 4;
}

void decode_q5_0(const uint8_t* block, float* values) {
  const float d = f16_at(block);
  for (int i = 0; i < kSmallBlock; ++i) values[i] = d * real(five_bits(block + 2, i) - 16);
}

void decode_q5_1(const uint8_t* block, float* values) {
  const float d = f16_at(block), m = f16_at(block + 2);
  for (int i = 0; i < kSmallBlock; ++i) values[i] = d * real(five_bits(block + 4, i)) + m;
}

// Scales and minima of 16 values in halves of a byte; q; d and the minima's d.
void decode_q2_k(const uint8_t* block, float* values) {
  const uint8_t* const q = block + 16;
  const float d = f16_at(block + 80), dmin = f16_at(block + 82);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int scale = block[i / 16];
    values[i] = d * real(scale & 15) * real(two_bits(q, i)) - dmin * real(scale >> 4);
  }
}

/// Scale k of 16 of Q3_K, six bits: four of them in halves of eight bytes, two in quarters of four.
int scale_of_q3_k(const uint8_t* bytes, int k) {
  const int low = k < 8 ? bytes[k] & 15 : bytes[k - 8] >> 4;
  const int high = bytes[8 + k % 4] >> (k / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// q's third bit; its lower two; scales of 16 values; d. Where the third bit is not set, q is 4
// less.
void decode_q3_k(const uint8_t* block, float* values) {
  const uint8_t *const q = block + 32, *const scales = block + 96;
  const float d = f16_at(block + 108);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int value = two_bits(q, i) - (one_bit(block, i) == 0 ? 4 : 0);
    values[i] = d * real(scale_of_q3_k(scales, i / 16)) * real(value);
  }
}

// Scale and minimum j of 8 of Q4_K and Q5_K, six bits each in 12 bytes: of the first four in the
// low bits of bytes 0 to 7, of the others four bits in bytes 8 to 11 and two atop the first four's.
int scale_of_k(const uint8_t* bytes, int j) {
  return j < 4 ? bytes[j] & 63 : (bytes[j + 4] & 15) | (bytes[j - 4] >> 2 & 48);
}
int minimum_of_k(const uint8_t* bytes, int j) {
  return j < 4 ? bytes[j + 4] & 63 : bytes[j + 4] >> 4 | (bytes[j] >> 2 & 48);
}

/// d, the minima's d, scales and minima of 32 values; `q_of(i)` is behind them.
template <class QOf>
void decode_with_minima(const uint8_t* block, float* values, const QOf& q_of) {
  const float d = f16_at(block), dmin = f16_at(block + 2);
  for (int j = 0; j < kSuperBlock / 32; ++j) {
    const float scale = d * real(scale_of_k(block + 4, j));
    const float minimum = dmin * real(minimum_of_k(block + 4, j));
    for (int i = 32 * j; i < 32 * (j + 1); ++i) values[i] = scale * real(q_of(i)) - minimum;
  }
}

void decode_q4_k(const uint8_t* block, float* values) {
  decode_with_minima(block, values, [&](int i) { return nibble(block + 16, i); });
}

void decode_q5_k(const uint8_t* block, float* values) {
  decode_with_minima(block, values,
                     [&](int i) { return nibble(block + 48, i) | one_bit(block + 16, i) << 4; });
}

// q's lower four bits, its upper two, signed scales of 16 values, d.
void decode_q6_k(const uint8_t* block, float* values) {
  const uint8_t *const high = block + 128, *const scales = block + 192;
  const float d = f16_at(block + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int q = (wide_nibble(block, i) | two_bits(high, i) << 4) - 32;
    values[i] = d * real(static_cast<int8_t>(scales[i / 16])) * real(q);
  }
}

struct Quants {
  std::string_view type;
  DecodeQuants decode;
};
constexpr std::array<Quants, 9> kQuants = {{{"Q4_0", decode_q4_0},
                                            {"Q4_1", decode_q4_1},
                                            {"Q5_0", decode_q5_0},
                                            {"Q5_1", decode_q5_1},
                                            {"Q2_K", decode_q2_k},
                                            {"Q3_K", decode_q3_k},
                                            {"Q4_K", decode_q4_k},
                                            {"Q5_K", decode_q5_k},
                                            {"Q6_K", decode_q6_k}}};

}  // namespace

DecodeQuants find_quants(std::string_view type) {
  const auto* found = std::find_if(kQuants.begin(), kQuants.end(),
                                   [&](const Quants& each) { return each.type == type; });
  return found == kQuants.end() ? nullptr : found->decode;
}

}  // namespace ng::io
