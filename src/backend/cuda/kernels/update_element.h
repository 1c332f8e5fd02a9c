// What an update makes of one weight: the optimizer's rule, the way in which the new value goes
// into what is stored, and the moments. One way, one kernel. [update_operations.h]
#pragma once

#include <cmath>
#include <type_traits>

#include "backend/cuda/kernels/block_cast.h"
#include "backend/cuda/kernels/stored.h"
#include "backend/cuda/kernels/update_way.h"
#include "backend/host_step.h"
#include "format/code_line.h"

namespace ng::cuda {

/// The block that a row is of. [tensor/row_blocks.h]
__device__ inline int64_t block_of(const RowBlocks& blocks, int64_t row) {
  int64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    const RowBlocks::Section s = blocks.sections[i];
    if (row < s.rows) return before + row / s.block_rows;
    row -= s.rows;
    before += s.rows / s.block_rows;
  }
  return before;
}

/// The tensors of an update, and its numbers.
struct UpdateTensors {
  OptimizerRule rule;
  CardOptimizerNumbers numbers;
  StoredTensor master, value;  ///< of which there may be no master
  StoredTensor moment1, moment2;
  StoredTensor carry;
  RowBlocks blocks;  ///< adam_mini: of moment2
  StoredSource grad;
  StepKey key;                   ///< residual
  const float* alpha = nullptr;  ///< precision_aware: the step; null: lr
  const StepControl* control = nullptr;

  [[nodiscard]] __device__ float grad_scale() const {
    return rule == OptimizerRule::muon || control == nullptr ? 1.0f : control->grad_scale;
  }
  /// Columns that one thread takes, for their codes share bytes.
  [[nodiscard]] NG_HD int together() const {
    int most = 1;
    for (const StoredTensor* x : {&master, &value, &moment1, &moment2, &carry})
      most = x->together() > most ? x->together() : most;
    return most;
  }
};

/// A weight before it is stored.
struct MovedWeight {
  float before = 0;  ///< its value as it is stored
  float w = 0, m = 0, v = 0, u = 0;
  float x = 0;     ///< what is rounded
  float lack = 0;  ///< kahan: what is to be added
};

/// `kBlocks`: the value's blocks have scales.
template <UpdateWay kWay, bool kBlocks = false>
struct UpdateEach {
  UpdateTensors t;
  std::conditional_t<kBlocks, BlockCast, NoBlockCast> by{};

  [[nodiscard]] __device__ CodeLine line() const {
    const ElementCast& element = t.value.before.element;
    return {element.grid, element.integers, element.kind == CodeKind::integer};
  }
  /// What 1 of the residual stands for beside a code of this scale: ulp/2^bits.
  [[nodiscard]] __device__ double unit(uint32_t code, float scale) const {
    return std::ldexp(line().ulp(code) * scale, -t.carry.before.codes.bits);
  }

  [[nodiscard]] __device__ MovedWeight moved(int64_t row, int64_t col) const {
    const OptimizerNumbers numbers = t.numbers.now();
    const ElementRule element(t.rule, numbers);
    MovedWeight at;
    at.before = t.value(row, col);
    at.w = t.master.exists() ? t.master(row, col) : at.before;
    const float g = t.grad(row, col) * t.grad_scale();
    at.m = t.moment1.exists() ? t.moment1(row, col) : 0.0f;
    if (t.moment2.exists())
      at.v = t.rule == OptimizerRule::adam_mini ? t.moment2(block_of(t.blocks, row), 0)
                                                : t.moment2(row, col);
    element.move(g, at.m, at.v);
    at.u = element.direction(at.w, at.m, at.v, g);
    const float step = numbers.lr * at.u;
    if constexpr (kWay == UpdateWay::direct || kWay == UpdateWay::feedback) {
      at.x = element.new_weight(at.w, at.m, at.v, g);
    } else if constexpr (kWay == UpdateWay::kahan) {
      at.lack = step - t.carry(row, col);
      at.x = at.w + at.lack;
    } else if constexpr (kWay == UpdateWay::residual) {
      const uint32_t code = t.value.before.codes(row, col);
      const double rest = t.carry(row, col) * unit(code, t.value.before.scale_of(row, col));
      at.x = static_cast<float>(at.before + rest) + step;
    } else {
      at.x = at.w + (t.alpha != nullptr ? *t.alpha * at.u : step);
    }
    return at;
  }
  /// x, or what the master makes of it.
  [[nodiscard]] __device__ float rounded_into_value(int64_t row, int64_t col) const {
    const float x = moved(row, col).x;
    return t.master.exists() ? t.master.value(t.master.code(row, col, x)) : x;
  }
  /// As moved(), with the first moment that the error of rounding goes into.
  [[nodiscard]] __device__ MovedWeight fed(int64_t row, int64_t col) const {
    MovedWeight at = moved(row, col);
    feed_back(at, value_of(row, col, code_of_value(row, col, at.x)));
    return at;
  }

  /// What became of a weight: of its value as it is stored, and as it was asked.
  struct Change {
    float before = 0, after = 0, u = 0;
  };

  __device__ Change change(int64_t row, int64_t col) const {
    if (skips(t.control)) return {};
    MovedWeight at = moved(row, col);
    float after = at.before;
    if constexpr (kWay == UpdateWay::residual) {
      after = put_residual(row, col, at.x);
    } else if (t.alpha == nullptr || *t.alpha > 0) {
      after = put_value(row, col, t.master.exists() ? t.master.put(row, col, at.x) : at.x);
    }
    if constexpr (kWay == UpdateWay::kahan) t.carry.put(row, col, after - at.w - at.lack);
    if constexpr (kWay == UpdateWay::feedback) feed_back(at, after);
    if (t.moment1.exists()) t.moment1.put(row, col, at.m);
    if (t.moment2.exists() && t.rule != OptimizerRule::adam_mini) t.moment2.put(row, col, at.v);
    return {at.before, after, at.u};
  }

 private:
  [[nodiscard]] __device__ uint32_t code_of_value(int64_t row, int64_t col, float x) const {
    if constexpr (kBlocks)
      return by.code(row, col, x);
    else
      return t.value.code(row, col, x);
  }
  [[nodiscard]] __device__ float value_of(int64_t row, int64_t col, uint32_t code) const {
    if constexpr (kBlocks)
      return by.value(row, col, code);
    else
      return t.value.value(code);
  }
  /// Of a code that is put.
  [[nodiscard]] __device__ float new_scale(int64_t row, int64_t col) const {
    if constexpr (kBlocks)
      return by.scale(row, col);
    else
      return t.value.next != nullptr ? t.value.next->decode : 1.0f;
  }
  __device__ float put_value(int64_t row, int64_t col, float x) const {
    const uint32_t code = code_of_value(row, col, x);
    t.value.before.codes.set(row, col, code);
    return value_of(row, col, code);
  }
  __device__ void feed_back(MovedWeight& at, float after) const {
    const OptimizerNumbers n = t.numbers.now();
    if (n.lr == 0) return;
    const float rate = n.lr / (n.correction1 * ElementRule(t.rule, n).root(at.v));
    at.m = at.m - (at.x - after) * (1 - n.beta1) / (n.beta1 * rate);
  }

  /// x rounded, and its residual beside the code that it became, which it may move on.
  __device__ float put_residual(int64_t row, int64_t col, float x) const {
    const int bits = t.carry.before.codes.bits;
    const int64_t half = int64_t{1} << (bits - 1);
    uint32_t code = code_of_value(row, col, x);
    const double one = unit(code, new_scale(row, col));
    const bool has_rest = one > 0 && !(x != x);
    const double rest = has_rest ? (static_cast<double>(x) - value_of(row, col, code)) / one : 0;
    const uint32_t random =
        random_bits(t.key.now(), static_cast<uint64_t>(row), static_cast<uint64_t>(col),
                    static_cast<uint64_t>(t.value.cols), 16);
    const double limit = static_cast<double>(half);
    double low = std::floor(rest + static_cast<double>(random) * 0x1p-16);
    low = low < -limit ? -limit : low > limit ? limit : low;
    auto q = static_cast<int64_t>(low);
    if (q == half && line().is_largest(code)) {
      q = half - 1;
    } else if (q == half) {
      const uint32_t next = line().next(code);
      q = line().ulp(next) > line().ulp(code) ? -half / 2 : -half;
      code = next;
    }
    t.value.before.codes.set(row, col, code);
    t.carry.before.codes.set(row, col, static_cast<uint32_t>(q) & ((1u << bits) - 1));
    return value_of(row, col, code);
  }
};

}  // namespace ng::cuda
