// What attention's kernels have in common: where heads lie, who sees whom, and which queries and
// keys a kernel leaves to another.
#pragma once

#include "backend/cuda/kernels/largest.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"

namespace ng::cuda {

/// Where heads lie, and who sees whom.
struct Heads {
  AttentionShape s;
  const int32_t* first_keys;  ///< null: 0 for all
  float scale;                ///< 1/sqrt(head_dim)
  bool are_rounded;           ///< probabilities, and slopes of scores

  [[nodiscard]] __device__ int64_t query_col(int64_t head) const { return head * s.head_dim; }
  [[nodiscard]] __device__ int64_t kv_head(int64_t head) const {
    return head * s.kv_heads / s.heads;
  }
  /// Of key 0 of the sequence of a query's row.
  [[nodiscard]] __device__ int64_t keys_row(int64_t row) const {
    return row / s.length * s.kv_stride;
  }
  /// The first key that query i of its sequence, in this row, sees; the last is first + i.
  [[nodiscard]] __device__ int64_t first_key(int64_t row, int64_t i) const {
    const int64_t of_document = first_keys == nullptr ? 0 : first_keys[row];
    const int64_t of_window = s.window == 0 ? 0 : s.first + i + 1 - s.window;
    return of_document > of_window ? of_document : of_window;
  }
};

inline constexpr int kFlashRows = 64;  ///< queries, or keys, of a head that a block takes

/// Blocks of queries, or of keys, of a head: one number for each.
struct FlashBlocks {
  int64_t sequences, length, heads;

  [[nodiscard]] __device__ uint32_t in_sequence() const {
    return static_cast<uint32_t>((length + kFlashRows - 1) / kFlashRows);
  }
  [[nodiscard]] int64_t count() const {
    return sequences * heads * ((length + kFlashRows - 1) / kFlashRows);
  }
  /// Of row i of a head of a sequence.
  [[nodiscard]] __device__ uint32_t of(uint32_t sequence, uint32_t head, uint32_t i) const {
    return (sequence * static_cast<uint32_t>(heads) + head) * in_sequence() + i / kFlashRows;
  }
};
[[nodiscard]] inline FlashBlocks query_blocks(const AttentionShape& s) {
  return {s.sequences, s.length, s.heads};
}
[[nodiscard]] inline FlashBlocks key_blocks(const AttentionShape& s) {
  return {s.sequences, s.kv_length, s.kv_heads};
}

// flash_attention.cc, flash_attention_backward.cc: by matrix units, within the same bounds.

/// out, its largest magnitude and lse. left[block of queries] becomes 1 where a value is not finite
/// that not all of them see: what is written for that block counts for nothing.
void flash_attention(Stream stream, const Attention& op, const Heads& heads, const AmaxPlace& amax,
                     uint32_t* left);
/// dq, and dk with dv, in the same way. means: dout·out of each query and head.
void flash_query_gradients(Stream stream, const AttentionBackward& op, const Heads& heads,
                           const float* means, uint32_t* left);
void flash_key_gradients(Stream stream, const AttentionBackward& op, const Heads& heads,
                         const float* means, uint32_t* left);

}  // namespace ng::cuda
