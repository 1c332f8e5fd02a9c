// What a backend makes GEMM operands by, and what it makes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "format/operand.h"
#include "math/philox.h"
#include "tensor/view.h"

namespace ng {

/// Which dimension of the source matrix the GEMM sums over.
enum class Contract : uint8_t {
  cols,  ///< operand rows are source rows
  rows,  ///< the operand is the transposed source
};

enum class Side : uint8_t { left, right };

/// Random Hadamard transform along the reduction dimension. [formats.md §7]
struct Hadamard {
  int size = 0;  ///< 0 (none), 16, 32, 64 or 128
  /// Sign j is negative iff bit j % 32 of word j / 32 is set.
  std::array<uint32_t, 4> signs{};
  RandomKey key{};  ///< signs_of() it and `gemm`, where they are drawn
  uint32_t gemm = 0;

  [[nodiscard]] bool is_drawn() const { return key.purpose == Purpose::hadamard_signs; }
  friend bool operator==(const Hadamard&, const Hadamard&) = default;
};

/// Everything but the values and the random draws that fixes the bits of an operand.
struct OperandSpec {
  Operand cast;
  Contract contract = Contract::cols;
  Side side = Side::left;
  int64_t rows = 0;        ///< of the operand (M or N of the GEMM)
  int64_t k = 0;           ///< logical reduction length
  int64_t k_multiple = 1;  ///< zero-padded to a multiple of this: lcm of both blocks and Hadamard
  Hadamard hadamard;
  bool signed_zeros = false;  ///< unpack tells -0 from +0; may cost storage

  friend bool operator==(const OperandSpec&, const OperandSpec&) = default;
  [[nodiscard]] int64_t k_padded() const { return (k + k_multiple - 1) / k_multiple * k_multiple; }
};

/// Whether an operand by `spec` of a tensor stored by `cast` takes its codes and scales: they are
/// cast the same, and blocks of one row lie along the reduction. [recipes.md §7, rule g]
[[nodiscard]] inline bool takes_stored(const OperandSpec& spec, const Operand& cast) {
  const Block& block = cast.block;
  const bool is_square = block.kind == Block::Kind::tensor ||
                         (block.kind == Block::Kind::tile && block.rows == block.cols);
  return !cast.is_unscaled() && spec.hadamard.size == 0 &&
         spec.cast.passing_straight() == cast.rounded_by(Rounding::nearest) &&
         (spec.contract == Contract::cols || is_square);
}

/// Counters of one prepared operand, in backend memory; zeroed by the caller. [formats.md §2.2]
struct OperandStats {
  uint64_t values = 0;     ///< elements counted
  uint64_t saturated = 0;  ///< |x| / scale above the largest element, before rounding
  uint64_t flushed = 0;    ///< x != 0 that became 0
  uint64_t nan = 0;
  uint64_t inf = 0;
  uint64_t narrowed = 0;  ///< that BF16 would have otherwise; counted of noisy weights alone

  /// Counters of another part of the operand.
  OperandStats& operator+=(const OperandStats& part) {
    values += part.values;
    saturated += part.saturated;
    flushed += part.flushed;
    nan += part.nan;
    inf += part.inf;
    narrowed += part.narrowed;
    return *this;
  }
  /// Takes off those of a part.
  OperandStats& operator-=(const OperandStats& part) {
    values -= part.values;
    saturated -= part.saturated;
    flushed -= part.flushed;
    nan -= part.nan;
    inf -= part.inf;
    narrowed -= part.narrowed;
    return *this;
  }
};

/// State of a delayed-scaling operand, in backend memory: encode_scale, then the amax history,
/// slot 0 first. [formats.md §5]
struct DelayedScale {
  float* encode_scale = nullptr;  ///< [1], initially 1
  float* history = nullptr;       ///< [amax_history], initially 0
};

/// A GEMM operand in the backend's own layout. `source` is set where the backend reads the values
/// in place instead of storing a packed form (then `storage` may be empty).
struct PackedOperand {
  OperandSpec spec;
  ConstView source;
  std::byte* storage = nullptr;
  size_t bytes = 0;
};

/// How `prepare` draws and what it reports to.
struct PrepareContext {
  RandomKey key;  ///< read only where the cast rounds stochastically
  /// Where the source lies within the whole tensor, for the draws: its first row and column, a
  /// multiple of 8, and the columns of the whole; 0: those of the source.
  int64_t first_row = 0, first_col = 0, whole_cols = 0;
  DelayedScale delayed;           ///< delayed scaling only
  bool update_history = true;     ///< false in evaluation and recompute
  OperandStats* stats = nullptr;  ///< may be null: nothing is counted
  /// Of which a scale of the whole tensor is made: FindOperandAmax of all that the source is a part
  /// of, at least that of the source. null: that of the source.
  const float* amax = nullptr;
  /// Where the source's values are a stored tensor's elements without their scales: that tensor,
  /// whose scales the operand takes. Its cast is the operand's, without transform and prescale.
  ConstView stored{};
  /// (1, columns of the source) FP32 that is taken off every row of it, of a backend that
  /// takes_off_means() and an operand that has storage. null: nothing is.
  const float* mean = nullptr;

  /// Draw groups of eight columns from one row of the whole tensor to the next, and that of the
  /// source's first element. [recipes.md §0]
  [[nodiscard]] int64_t groups_of_row(int64_t cols) const {
    return ((whole_cols > 0 ? whole_cols : cols) + 7) / 8;
  }
  [[nodiscard]] int64_t first_group(int64_t cols) const {
    return first_row * groups_of_row(cols) + first_col / 8;
  }

  /// The stored scale of the operand's block that begins at (row, k); null where the source ends
  /// before it.
  [[nodiscard]] std::optional<int64_t> stored_scale(const OperandSpec& spec, int64_t row,
                                                    int64_t k) const {
    if (row >= spec.rows || k >= spec.k) return {};
    return spec.contract == Contract::cols ? stored.scale_index(row, k)
                                           : stored.scale_index(k, row);
  }
};

}  // namespace ng
