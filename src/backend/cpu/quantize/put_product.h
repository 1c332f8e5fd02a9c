// Values on their way to where a product lies.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "math/bf16.h"
#include "math/round.h"

namespace ng::cpu {

inline float value_at(float value) { return value; }
inline float value_at(Bf16 value) { return widened(value); }
inline void put_value(float value, float& to) { to = value; }
inline void put_value(float value, Bf16& to) { to = to_bf16(value); }

template <class Value>
void put_product(const float* values, int64_t count, Into into, Compute round, Value* y) {
  for (int64_t k = 0; k < count; ++k) {
    float t = values[k];
    if (into == Into::add) t = value_at(y[k]) + t;
    put_value(round == Compute::bf16 ? round_to_bf16(t) : t, y[k]);
  }
}

/// Row `row` of y from column `col` on = or += values, rounded as a GEMM rounds its y.
inline void put_product(const float* values, int64_t count, Into into, Compute round, const View& y,
                        int64_t row, int64_t col) {
  if (y.is(bf16_format()))
    put_product(values, count, into, round, y.as<Bf16>().row(row) + col);
  else
    put_product(values, count, into, round, y.as<float>().row(row) + col);
}

}  // namespace ng::cpu
