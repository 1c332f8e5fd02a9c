// Stretches of tensors as they persist, to FP32 and back: codes, scales, draws.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cpu/packed.h"
#include "backend/cpu/quantize/dequantize.h"
#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/update/chunks.h"
#include "backend/cpu/update/coded.h"
#include "backend/cpu/update/stretch.h"
#include "backend/update_operations.h"

namespace ng::cpu {

/// What a worker needs while it reads or rounds one stretch.
struct StretchScratch {
  alignas(64) uint16_t codes[kStretch + 64];
  alignas(64) uint16_t draws[kStretch + 64];
  alignas(64) std::byte elements[4 * kStretch];  ///< as the encoder leaves them
  alignas(64) uint32_t amax[kStretch];           ///< of the blocks of a stretch
  alignas(64) float decode[kStretch];
  alignas(64) float multiplier[kStretch];
};

/// A tensor that is only read.
[[nodiscard]] Stored as_stored(const ConstView& x);

/// One stored tensor of an update. Where its scales depend on no more than a stretch they are found
/// with it; else note() all values first, then find_scales().
class StoredCodec {
 public:
  /// `purpose` of its draws. Throws Unsupported, naming `operation`, for casts that are not
  /// stored: overflow to special codes, prescales, 32-bit draws, the rule `mse`.
  StoredCodec(std::string_view operation, const Stored& stored, const RandomKey& key,
              Purpose purpose);

  [[nodiscard]] explicit operator bool() const { return view_.rows > 0; }
  [[nodiscard]] bool is_fp32() const { return *this && cast_.is_fp32(); }
  /// Stretches begin at multiples of it: whole blocks.
  [[nodiscard]] int64_t unit() const;
  /// Rows may run together as one.
  [[nodiscard]] bool can_be_flat() const;
  void make_flat();
  /// Scales depend on values of several stretches.
  [[nodiscard]] bool needs_pass() const;
  /// Scales that `find_scales` finds.
  [[nodiscard]] int64_t scale_count() const;

  /// Memory for what a pass finds: [scale_count] each.
  void set_pass_memory(uint32_t* amax, float* decode, float* multiplier);

  /// Values: in place where they are FP32, else in `buffer`.
  [[nodiscard]] const float* read(const Stretch& at, float* buffer, StretchScratch& scratch) const;
  /// Elements as they are stored, without their scales.
  void read_elements(const Stretch& at, float* elements, StretchScratch& scratch) const;
  /// Where FP32 values lie.
  [[nodiscard]] float* place(const Stretch& at) const;

  /// Into the maxima of the blocks; any number of threads at once.
  void note(const Stretch& at, const float* values, StretchScratch& scratch) const;
  /// Bits of the largest |value| of some, where all have one scale; and of what was noted so far.
  void note_largest(uint32_t amax, int64_t block = 0) const;
  [[nodiscard]] uint32_t largest() const;
  /// After all notes: at least so much is the amax of a scale that all of the tensor has.
  void note_of_all(float amax);
  /// After all notes. `sticky`: one power of two stays while it fits. [errata-2, 14]
  void find_scales(bool sticky);
  /// After find_scales: the one scale as a gradient's is. [backend/gradient_scale.h]
  void scale_for_wire(const AutoScale* scale);
  /// Maxima noted become what `other`, which has one scale and found it, rounds them to.
  void round_maxima(const StoredCodec& other) const;
  /// The one scale found by a pass; 1 where none was.
  [[nodiscard]] float encode_scale() const;

  /// values -> elements without scales, as FP32.
  void round(const Stretch& at, const float* values, float* elements,
             StretchScratch& scratch) const;
  /// What elements that `round` made stand for.
  void decode(const Stretch& at, const float* elements, float* values,
              const StretchScratch& scratch) const;
  /// How many columns of a stretch share a scale: all where it has one or none.
  [[nodiscard]] int64_t shared_cols(const Stretch& at) const {
    return cast_.is_unscaled() || blocks_in(at) == 1 ? at.count : block_cols();
  }
  /// What the blocks of a stretch decode by, 1 where nothing is scaled: as stored, and as `round`
  /// found it.
  [[nodiscard]] const float* stored_scales(const Stretch& at, StretchScratch& scratch) const;
  [[nodiscard]] const float* new_scales(const Stretch& at, const StretchScratch& scratch) const {
    return needs_pass() ? decode_ + scale_at(at) : scratch.decode;
  }
  /// What multiplies those of all blocks: as stored, and as a pass found it.
  [[nodiscard]] float stored_tensor_scale() const {
    return view_.scales.tensor != nullptr ? *view_.scales.tensor : 1.0f;
  }
  [[nodiscard]] float new_tensor_scale() const { return request_.two_level.tensor; }
  /// Stores elements, and the scales where they were found with the stretch.
  void put(const Stretch& at, const float* elements, StretchScratch& scratch) const;
  /// round() and put().
  void write(const Stretch& at, const float* values, float* buffer, StretchScratch& scratch) const;
  /// After the pass that stored: the scales that a pass had found.
  void put_scales() const;
  /// The same tensor for update_chunks, where rows run together as one.
  [[nodiscard]] ChunkTensor chunk_tensor() const;
  /// Draws of a stretch for `key`'s stream, 16 bits each.
  void draw(const Stretch& at, uint16_t* draws) const;

 private:
  [[nodiscard]] int64_t block_cols() const;
  [[nodiscard]] int64_t scale_at(const Stretch& at) const {
    return view_.scale_index(at.row, at.col);
  }
  [[nodiscard]] int64_t blocks_in(const Stretch& at) const;
  [[nodiscard]] std::byte* memory(const Stretch& at) const;
  [[nodiscard]] CodedStretch coded(const Stretch& at) const;
  [[nodiscard]] const uint16_t* codes(const Stretch& at, StretchScratch& scratch) const;
  /// Null where no draw decides.
  const uint16_t* draws_of(const Stretch& at, StretchScratch& scratch) const;
  [[nodiscard]] bool is_e4m3_of_one_scale() const;
  void put_scale(int64_t at, float decode) const;
  void scale_stretch(const Stretch& at, const float* values, StretchScratch& scratch) const;

  View view_;
  Operand cast_;
  RandomKey key_;
  ScaleRequest request_;
  ElementGrid grid_;
  CodeDecoder decoder_;
  uint32_t* amax_ = nullptr;
  uint32_t amax_of_all_ = 0;  ///< bits
  float* decode_ = nullptr;
  float* multiplier_ = nullptr;
};

/// The way through tensors of rows × cols. Where `is_flat`, and every tensor allows it, rows run
/// together as one, in the codecs too; `is_flat` says afterwards whether they do.
[[nodiscard]] StretchWalk walk_through(std::span<StoredCodec* const> codecs, int64_t rows,
                                       int64_t cols, bool& is_flat);

}  // namespace ng::cpu
