// What the CUDA backend does of the list of operations, one overload each, in its topic's file.
// Throws Unsupported, before anything is launched, for types of tensors that it lacks.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/units.h"
#include "backend/cuda/words.h"

namespace ng::cuda {

/// Memory of the card that one operation uses and the next one overwrites.
struct Scratch {
  std::byte* data = nullptr;
  size_t bytes = 0;

  /// What lies there from its beginning.
  template <class T>
  [[nodiscard]] T* take(std::string_view operation, int64_t count) const {
    if (static_cast<size_t>(count) * sizeof(T) > bytes)
      throw Unsupported("cuda: " + std::string(operation) + " of so large a tensor");
    return reinterpret_cast<T*>(data);
  }
  /// What lies behind `count` of them.
  template <class T>
  [[nodiscard]] Scratch behind(int64_t count) const {
    const size_t used = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return {data + used, used < bytes ? bytes - used : 0};
  }
};

// elementwise.cc: the bits of ref
void perform(Stream stream, const Fill& op);
void perform(Stream stream, const Clear& op);
void perform(Stream stream, const Copy& op);
void perform(Stream stream, const Add& op);
void perform(Stream stream, const Combine& op);
void perform(Stream stream, const Normalize& op);
void perform(Stream stream, const FillNormal& op);

// activation.cc: FP32
void perform(Stream stream, const Gelu& op);
void perform(Stream stream, const GeluBackward& op);
void perform(Stream stream, const Swiglu& op);
void perform(Stream stream, const SwigluBackward& op);

// embedding.cc: the bits of ref
void perform(Stream stream, const Embed& op);
void perform(Stream stream, const EmbedBackward& op);
void perform(Stream stream, const RopeTable& op);
void perform(Stream stream, const Rope& op);

// reduce.cc: the bits of ref, add_column_sums those of another order in FP64
void perform(Stream stream, const AddColumnSums& op, const Scratch& scratch);
void perform(Stream stream, const FindColumnMeans& op);
void perform(Stream stream, const SubtractRow& op);
void perform(Stream stream, const AddSum& op, const Scratch& scratch);
void perform(Stream stream, const AddSumOfSquares& op, const Scratch& scratch);
void perform(Stream stream, const AddNonfinite& op);

// norm.cc: sums in FP64, a warp's lanes side by side
void perform(Stream stream, const Norm& op);
void perform(Stream stream, const NormBackward& op, const Scratch& scratch);

/// What a product may be computed with.
struct WithUnits {
  Units* units = nullptr;  ///< null: plain kernels; those of gemm.cc have the bits of ref
  Scratch scratch;
};

// attention.cc: FP32, scores of 32 keys at a time; flash_attention.cc by units
void perform(Stream stream, const Attention& op, const WithUnits& with);
void perform(Stream stream, const AttentionBackward& op, const WithUnits& with);

// loss.cc: exponentials in FP32, their sums in FP64
void perform(Stream stream, const CrossEntropy& op);
void perform(Stream stream, const CrossEntropyLoss& op);

// preference.cc: the bits of ref
void perform(Stream stream, const PreferenceLoss& op, const Scratch& scratch);

// operand.cc, block_operand.cc, one_scale.cc, turn_back.cc, gemm.cc without units: the bits of ref
void perform(Stream stream, const Prepare& op, const Scratch& scratch);
void perform(Stream stream, const PrepareBoth& op, const Scratch& scratch);
void perform(Stream stream, const FindOperandAmax& op, const Scratch& scratch);
void perform(Stream stream, const RoundingBackward& op, const Scratch& scratch);
void perform(Stream stream, const Unpack& op);
void perform(Stream stream, const Gemm& op, const WithUnits& with);
void perform(Stream stream, const TurnBack& op);
void perform(Stream stream, const RollDelayedScale& op);

// store.cc: the bits of ref
void perform(Stream stream, const DecideStep& op);
void perform(Stream stream, const Store& op, const Scratch& scratch);
void perform(Stream stream, const FindAmax& op, const Scratch& scratch);
void perform(Stream stream, const StoreGradient& op, const Scratch& scratch);
void perform(Stream stream, const MoveAutoScale& op, const Scratch& scratch);

// update.cc, step_norm.cc, check_update.cc, momentum.cc: the bits of ref
void perform(Stream stream, const Update& op, const Scratch& scratch);
void perform(Stream stream, const FindUpdateMaxima& op, const Scratch& scratch);
void perform(Stream stream, const CheckUpdate& op, const Scratch& scratch);
void perform(Stream stream, const MoveBlockMoment& op, const Scratch& scratch);
void perform(Stream stream, const MoveMomentum& op, const Scratch& scratch);

// rank_sum.cc: the bits of ref
void perform(Stream stream, const SumOfRanks& op);
void perform(Stream stream, const CountLargest& op);

// noise.cc, noise_formats.cc: the bits of ref
void perform(Stream stream, const AddNoise& op, const Scratch& scratch);
void perform(Stream stream, const QuantizeByProxy& op, const Scratch& scratch);
void perform(Stream stream, const AddNoiseBackward& op, const Scratch& scratch);
void perform(Stream stream, const FinishNoiseGradient& op);
void perform(Stream stream, const RoundByBits& op);
void perform(Stream stream, const CountCast& op);

/// Storage of an operand; 0 where the GEMM reads the source in place.
[[nodiscard]] size_t operand_bytes(const OperandSpec& spec);

}  // namespace ng::cuda
