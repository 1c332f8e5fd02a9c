// How a pair of operands is summed: the table of backend/ref/gemm.h as the driver needs it.
#pragma once

#include "backend/cpu/packed.h"

namespace ng::cpu {

/// How products become a sum.
enum class Sum : uint8_t {
  chain,       ///< one FP32 FMA chain along K
  integer,     ///< exact integer sums of 131,072 products, each added in FP32
  groups,      ///< mxfp4 pairs: FP64 inside groups of four blocks, FP32 across them
  scaled_add,  ///< acc += S_b · scales, rounded where scalbn rounds
  scaled_fma,  ///< acc = fma(S_b, fl32(sa · sb), acc)
  tile32,      ///< two chains of 16 products each, then their sum, then acc + that
};

/// What packing does with the block scales of one operand.
enum class ScaleUse : uint8_t {
  none,      ///< it has none along K
  decoded,   ///< multiplied into the elements, one FP32 rounding
  segments,  ///< kept, one per row and segment
  groups,    ///< as segments; aligned groups of four share one scale, elements or sums shifted
};

constexpr int64_t kPair = 2;               ///< BF16 or int16 values of one dot product
constexpr int64_t kWord = 4;               ///< int8 values of one dot product
constexpr int64_t kTileDepth = 32;         ///< values along K of one Sum::tile32
constexpr int64_t kGroup = 128;            ///< values of an mxfp4 group
constexpr int64_t kGroupBlocks = 4;        ///< blocks of 32 in it
constexpr int64_t kGroupFactor = 8;        ///< most that aligns a block: 128 · (12 · 8)² < 2^24
constexpr int64_t kIntegerChunk = 131072;  ///< products that int32 holds exactly
constexpr int64_t kIntegerSegment = 512;   ///< 512 · 127² < 2^24: exact in an FP32 chain

// Both operands mxfp4: {.sum = groups, .segment = 32, .unit = 128}; nvfp4: {scaled_add, 16}; two
// operands without scales along K: {chain}, one chain through all of K.
struct GemmRule {
  Sum sum = Sum::chain;
  int64_t segment = 0;  ///< values along K of one FP32 chain from 0; unused by Sum::chain
  int64_t unit = 16;    ///< K blocks of the driver are multiples of this
  ScaleUse a_scales = ScaleUse::none;
  ScaleUse b_scales = ScaleUse::none;
  float alpha = 1.0f;     ///< undoes prescales and Hadamard transform
  bool has_room = false;  ///< scaled_fma: products of scales are 0 or far from both ends of FP32
};

[[nodiscard]] GemmRule rule_of(const OperandSpec& a, const OperandSpec& b, SumOrder sum);

/// Scales change along K.
[[nodiscard]] bool is_blocked(const OperandSpec& spec);

}  // namespace ng::cpu
