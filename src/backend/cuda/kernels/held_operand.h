// An operand as cuBLASLt takes it: where it lies so already, or in scratch memory. [route.h]
//
// Folded ones are held under one power of two for a row. A row whose blocks lie further apart than
// FP8 reaches is left out, held as zeros: the host does not have to know. [gpu.md §4 (b)]
#pragma once

#include "backend/cuda/fold.h"
#include "backend/cuda/kernels/operand.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/route.h"

namespace ng::cuda {

inline constexpr int64_t kPieceRows = 128;  ///< pieces are a multiple of it

[[nodiscard]] inline int64_t up_to(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Parts of scratch memory one after another.
class Room {
 public:
  explicit Room(const Scratch& scratch) : scratch_(scratch) {}
  /// Not to be used unless holds_all() in the end.
  std::byte* take(size_t bytes) {
    const size_t begin = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return scratch_.data + begin;
  }
  [[nodiscard]] bool holds_all() const { return used_ <= scratch_.bytes; }
  template <class T>
  [[nodiscard]] T* take_all(int64_t count) {
    std::byte* const taken = take(static_cast<size_t>(count) * sizeof(T));
    if (!holds_all()) throw Unsupported("cuda: gemm of so large a tensor");
    return reinterpret_cast<T*>(taken);
  }

 private:
  static constexpr size_t kAlignment = 256;
  Scratch scratch_;
  size_t used_ = 0;
};

/// An operand, and how its rows are held: [rows_held(rows)][k_held()] elements.
struct HeldOperand {
  CardOperand from;
  Held held;
  bool folds = false;
  FoldWindow window{};             ///< of what folds
  const void* in_place = nullptr;  ///< it lies as the library takes it
  int64_t leading = 0;             ///< elements from one row, or column where turned, to the next
  bool is_late = false;            ///< its late scales are not the library's
  float* scales = nullptr;         ///< of `tensor` [1], of `outer` [rows]
  float* references = nullptr;     ///< [rows] of what folds; with `outer` its scales
  uint32_t* left_out = nullptr;    ///< [rows] of what folds

  [[nodiscard]] bool has_wide_scales() const {
    return held.scale == MatmulScale::vec128 || held.scale == MatmulScale::block128;
  }
  [[nodiscard]] bool has_block_scales() const {
    return has_wide_scales() || held.scale == MatmulScale::vec16_ue4m3 ||
           held.scale == MatmulScale::vec32_ue8m0;
  }
  /// Values along K that share a scale of a block.
  [[nodiscard]] int64_t block() const {
    return has_wide_scales() ? 128 : held.scale == MatmulScale::vec16_ue4m3 ? 16 : 32;
  }
  [[nodiscard]] int64_t k_held() const { return filled_up(from.k_padded, held.type); }
  [[nodiscard]] int64_t blocks() const { return (k_held() + block() - 1) / block(); }
  [[nodiscard]] int64_t rows_held(int64_t rows) const { return filled_up(rows, held.type); }
  [[nodiscard]] size_t bytes(int64_t rows) const {
    if (in_place != nullptr) return 0;
    return static_cast<size_t>(rows_held(rows) * k_held() * bits_of(held.type) / 8);
  }
  [[nodiscard]] size_t scale_bytes(int64_t rows) const {
    const int64_t held_rows = rows_held(rows);
    int64_t bytes = 0;
    if (held.scale == MatmulScale::vec128)
      bytes = held_rows * blocks() * 4;
    else if (held.scale == MatmulScale::block128)
      bytes = block128_scale_at(held_rows + 127, 0, blocks()) * 4;
    else if (has_block_scales())
      bytes = block_scale_bytes(held_rows, blocks());
    return static_cast<size_t>(bytes);
  }
};

/// `room`: for scales of rows and what is left out.
[[nodiscard]] HeldOperand held_operand(const CardOperand& x, const Operand& cast, const Held& held,
                                       bool folds, Room& room);
/// Before rows are held.
void find_scales(Stream stream, const HeldOperand& x);
/// As the library is asked about it: what lies in memory already, from row `first` on, and how.
[[nodiscard]] MatmulOperand described(const HeldOperand& x, int64_t first);
/// `rows` rows from `first` on, into x.bytes(rows) and x.scale_bytes(rows), unless in place.
[[nodiscard]] MatmulOperand hold(Stream stream, const HeldOperand& x, int64_t first, int64_t rows,
                                 std::byte* values, std::byte* block_scales);

}  // namespace ng::cuda
