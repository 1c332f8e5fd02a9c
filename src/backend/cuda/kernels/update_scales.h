// Scales for all of a tensor that an update stores: of its new values, which are found before any
// of them is stored.
#pragma once

#include "backend/cuda/kernels/update_element.h"

namespace ng::cuda {

/// What one update keeps in the scratch.
struct UpdateScratch {
  CardScale master, value, moment1, moment2;
  float of_value = 0;  ///< what the master makes of the largest weight of all ranks
  float alpha = 0;     ///< precision_aware
};

/// Largest magnitudes of a row's new values, by a warp; with feedback not of the first moments.
template <UpdateWay kWay>
struct FindNewLargest {
  UpdateEach<kWay> update;
  UpdateScratch* to;
  bool is_of_master;  ///< of what the master makes of the weights; else of weights and moments
  int64_t first_row;
  __device__ void operator()(int64_t i, int lane) const {
    const int64_t row = first_row + i;
    const UpdateTensors& t = update.t;
    if (skips(t.control)) return;
    Largest weight, first, second;
    for (int64_t col = lane; col < t.value.cols; col += kWarp) {
      const MovedWeight at = update.moved(row, col);
      weight.take(is_of_master ? t.master.value(t.master.code(row, col, at.x)) : at.x);
      first.take(at.m);
      second.take(at.v);
    }
    put_largest(weight, is_of_master || !t.master.exists() ? &to->value : &to->master, lane);
    if (is_of_master) return;
    if constexpr (kWay != UpdateWay::feedback) put_largest(first, &to->moment1, lane);
    put_largest(second, &to->moment2, lane);
  }
};

/// Largest magnitude of a row's first moments with the errors that go into them, by a warp.
template <bool kBlocks>
struct FindLargestFed {
  UpdateEach<UpdateWay::feedback, kBlocks> update;
  CardScale* to;
  int64_t first_row;
  __device__ void operator()(int64_t i, int lane) const {
    if (skips(update.t.control)) return;
    Largest first;
    for (int64_t col = lane; col < update.t.value.cols; col += kWarp)
      first.take(update.fed(first_row + i, col).m);
    put_largest(first, to, lane);
  }
};

/// What is rounded into the value, of some rows in FP32, by a warp for each.
template <UpdateWay kWay>
struct MakeWeights {
  UpdateEach<kWay> update;
  float* weights;
  int64_t first_row;
  __device__ void operator()(int64_t i, int lane) const {
    const int64_t cols = update.t.value.cols;
    if (skips(update.t.control)) return;
    for (int64_t col = lane; col < cols; col += kWarp)
      weights[i * cols + col] = update.rounded_into_value(first_row + i, col);
  }
};

struct ForgetNewScales {
  UpdateScratch* to;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { *to = {}; }
};

/// What a master of one scale, or none, makes of the largest weight of all ranks.
struct RoundLargest {
  StoredTensor master;
  const UpdateMaxima* maxima;
  UpdateScratch* to;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const float scale = master.next != nullptr ? master.next->decode : 1.0f;
    const float largest = maxima->weight;
    const uint32_t code = encode_element(master.cast, largest * (1.0f / scale), {});
    to->of_value = largest == 0 ? 0.0f : decode_element(master.before.element, code) * scale;
  }
};

/// *maxima of what was found.
struct PutMaxima {
  const UpdateScratch* found;
  bool has_master;
  const StepControl* control;
  UpdateMaxima* maxima;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    *maxima = {};
    if (skips(control)) return;
    const CardScale& weight = has_master ? found->master : found->value;
    *maxima = {float_of_bits(weight.amax), float_of_bits(found->moment1.amax),
               float_of_bits(found->moment2.amax)};
  }
};

}  // namespace ng::cuda
