// One GEMM as its loops see it: operands, rule, microkernel, and how the work is cut.
#pragma once

#include <bit>

#include "backend/cpu/gemm/isa/matrix.h"
#include "backend/cpu/gemm/isa/tile32.h"
#include "backend/cpu/gemm/panel.h"
#include "backend/cpu/gemm/rule.h"
#include "backend/cpu/gemm/tile.h"

namespace ng::cpu {

inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

constexpr int64_t kWidenedK = 128;  ///< values along K that pairs are widened at a time

/// Everything about one GEMM that its loops read.
struct Job {
  const Gemm& out;
  Rows<float> y32{};  // the output where it is stored as FP32
  Rows<Bf16> y16{};   // where it is stored as BF16
  const Microkernel& kernel;
  GemmRule rule;
  Tile32Kernel* tile32 = nullptr;  // Sum::tile32
  PanelSource a{};
  PanelSource b{};
  int64_t m = 0, n = 0, k = 0;
  int64_t block_k = 0;  // multiple of rule.unit
  int64_t super_k = 0;  // multiple of block_k
  int64_t chunk_m = 0;  // multiple of kernel.rows
  int64_t chunk_n = 0;  // multiple of kernel.cols
  Units units = Units::fp32;
  bool may_flush = false;        // pairs: whether a tile may meet subnormals depends on its values
  bool rounds_products = false;  // Sum::scaled_add: even sums times plain scales need rounding
  bool kernel_rounds = false;    // and the kernel of scaled sums does it
  bool scaled = false;           // outputs are multiplied at the end
  float factor = 1.0f;           // scaled sums: by this one, which their kernels can do
  int64_t words = 0;             // that int16 sums hold; 0: sums are int32
  bool on_tiles = false;         // of matrices: the kernels are those of MatrixKernels
  int64_t left_words = 0;        // of a piece of their left panels [tile_panels.h]
  bool partial_in_y = true;

  [[nodiscard]] int64_t segments(int64_t count) const {
    return rule.segment == 0 ? 0 : ceil_div(count, rule.segment);
  }
  [[nodiscard]] TileShape tile() const { return {kernel.rows, kernel.cols}; }
  /// Values along K of one element of a panel.
  [[nodiscard]] int64_t lanes() const {
    return units == Units::int8 ? kWord : units == Units::fp32 ? 1 : kPair;
  }
  /// Elements of a panel that hold `values` along K. A shift: tiles are short, divisions long.
  [[nodiscard]] int64_t elements(int64_t values) const {
    return values >> std::countr_zero(static_cast<uint64_t>(lanes()));
  }
  [[nodiscard]] bool has_integers() const { return units == Units::int8 || units == Units::int16; }
  /// For such elements; of FP32 where they are integers.
  [[nodiscard]] const ChainKernels& chains() const {
    return units == Units::bf16 ? kernel.bf16 : kernel.fp32;
  }
  [[nodiscard]] const DotKernels& dots() const {
    if (units == Units::int16) return kernel.int16_dots;
    return words != 0 ? kernel.short_dots : kernel.dots;
  }
  [[nodiscard]] ScaledKernel* scaled_kernel() const {
    if (a.looks_up) return dots().scaled_by_lookup;
    return has_integers() ? dots().scaled : chains().scaled;
  }
  /// Sums of words that make one of a segment. Each begins with what undoes b's bias.
  [[nodiscard]] int64_t sums() const {
    return words == 0 ? 1 : rule.segment >> std::countr_zero(static_cast<uint64_t>(words * kWord));
  }
  /// Sums of segments are scaled.
  [[nodiscard]] bool has_scaled_sums() const {
    return rule.sum != Sum::chain && rule.sum != Sum::integer && rule.sum != Sum::tile32;
  }
  /// Their outputs have scales of rows besides: second ones, each of a row of an operand.
  [[nodiscard]] bool scales_rows() const {
    return a.row_scale != nullptr || b.row_scale != nullptr;
  }
  [[nodiscard]] bool stores_bf16() const { return y16.data != nullptr; }
  [[nodiscard]] bool rounds_to_bf16() const { return stores_bf16() || out.round == Compute::bf16; }
  [[nodiscard]] bool finishes_plainly() const {
    return (!scaled || (has_scaled_sums() && !scales_rows())) && out.bias.rows == 0 &&
           out.into != Into::add && !rounds_to_bf16();
  }
};

/// What multiplies such operands with the instruction set in use.
[[nodiscard]] Units units_of(const OperandSpec& a, const OperandSpec& b, SumOrder sum);

/// Checks that the operands fit each other and the output.
/// `tiles`: for products that matrix tiles take; null: there are none.
[[nodiscard]] Job job_of(const Gemm& op, const MatrixKernels* tiles);

}  // namespace ng::cpu
