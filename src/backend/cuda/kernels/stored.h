// Tensors that persist in few bits, as kernels read and write them: of any element, with scales of
// blocks or without. [tensor/stored.h]
#pragma once

#include "backend/cuda/kernels/operand.h"
#include "backend/cuda/kernels/perform.h"

namespace ng::cuda {

/// Whether values are scaled by one number for all of them, of which each is rounded by itself.
[[nodiscard]] bool has_shared_scale(const Stored& y);

/// A tensor that is read and stored anew, value by value.
struct StoredTensor {
  StoredSource before{};            ///< as it lies there
  ElementCast cast{};               ///< by which it is stored
  int64_t cols = 0;                 ///< of the tensor, for the draws
  const CardScale* next = nullptr;  ///< the scale that it gets; null: it has none for all
  float* strip = nullptr;           ///< where values wait for the scales of their blocks
  int64_t strip_row = 0;
  bool is_decoded = false;  ///< what it holds is read there, too: no source reads its codes

  [[nodiscard]] NG_HD bool exists() const { return cols > 0; }
  [[nodiscard]] NG_HD int together() const {
    return exists() && strip == nullptr ? before.codes.together() : 1;
  }
  [[nodiscard]] __device__ float operator()(int64_t row, int64_t col) const {
    return is_decoded ? strip[(row - strip_row) * cols + col] : before(row, col);
  }
  /// Its code; who writes one of a byte writes all of them.
  [[nodiscard]] __device__ uint32_t code(int64_t row, int64_t col, float x) const {
    return code_of(cast, next != nullptr ? x * next->multiplier : x, row, col, cols);
  }
  [[nodiscard]] __device__ float value(uint32_t code) const {
    const float element = decode_element(before.element, code);
    return next != nullptr ? element * next->decode : element;
  }
  /// Returns what it became, where it is known yet.
  __device__ float put(int64_t row, int64_t col, float x) const {
    if (strip != nullptr) return strip[(row - strip_row) * cols + col] = x;
    const uint32_t made = code(row, col, x);
    before.codes.set(row, col, made);
    return value(made);
  }
};
/// By `y.cast`, draws by `key` with `purpose`; Unsupported naming `operation` for casts that
/// tensors are not stored by. Of a scale for all of it `scale` is where it is decided.
[[nodiscard]] StoredTensor stored_tensor(std::string_view operation, const Stored& y,
                                         const StepKey& key, Purpose purpose,
                                         const CardScale* scale = nullptr);

/// Of a tensor without scales: to nearest even, what lies above the largest becomes infinite, or
/// NaN, where the element has such codes.
[[nodiscard]] StoredTensor plain_tensor(std::string_view operation, const View& y);

/// What a scale for all of a tensor is made of, beside its largest magnitude.
struct SharedScaleRule {
  float fit = 0, max = 0;
  bool is_power = false;
  const float* kept = nullptr;    ///< decode multiplier that stays while it fits; null: made anew
  const float* shared = nullptr;  ///< largest of all of which the tensor is a part; null: it is all

  __device__ void decide(CardScale& scale) const;
};
[[nodiscard]] SharedScaleRule shared_scale_rule(const Stored& y, bool is_kept, const float* shared);
/// Makes the scale of what was found; once a tensor is stored, its scale is put beside it, unless
/// `alpha` says that nothing was.
void decide_shared_scale(Stream stream, CardScale* scale, const SharedScaleRule& rule);
void put_shared_scale(Stream stream, const Stored& y, const CardScale* scale,
                      const StepControl* control, const float* alpha = nullptr);

/// Whether the scales of its blocks have a second level, and what is put beside it of that.
[[nodiscard]] bool has_levels(const Stored& y);
void put_level(Stream stream, const Stored& y, const CardScale* level, const StepControl* control);

/// Stores a tensor whose values share scales in blocks, or are coded (coded.h): of rows of FP32
/// that lie side by side, from `strip_row` on, or of a source.
struct BlockStore {
  std::string_view operation;
  Stored y;
  StepKey key;  ///< purpose included
  const float* strip = nullptr;
  int64_t strip_row = 0, strip_rows = 0;
  StoredSource source{};
  const float* amax = nullptr;           ///< of all of which the tensor is a part; null: it is all
  const StepControl* control = nullptr;  ///< null: never skipped
};
/// The rows of a strip begin with a block, and the second level that they get is there already and
/// not put beside the tensor.
void store_blocks(Stream stream, const BlockStore& store, CardScale* second = nullptr);

}  // namespace ng::cuda
