// What a step decides, and values into what is stored. The bits of `ref`.
#include <algorithm>

#include "backend/cuda/kernels/amax.h"
#include "backend/cuda/kernels/coded.h"
#include "backend/cuda/kernels/stored.h"
#include "backend/gradient_scale.h"
#include "backend/host_step.h"

namespace ng::cuda {
namespace {

/// x into the rows from `first_row` on.
struct StoreEach {
  StoredTensor y;
  StoredSource x;
  const StepControl* control;
  int64_t first_row = 0;
  __device__ void operator()(int64_t row, int64_t unit) const {
    if (skips(control)) return;
    const int together = y.together();
    for (int64_t col = unit * together; col < unit * together + together && col < y.cols; ++col)
      y.put(first_row + row, col, x(row, col));
  }
};

struct Decide {
  DecideStep op;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { decide_step(op); }
};

struct ForgetOne {
  CardScale* scale;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { *scale = {}; }
};

struct FindLargestOfRow {
  StoredSource x;
  int64_t cols;
  CardScale* scale;
  __device__ void operator()(int64_t row, int lane) const {
    Largest largest;
    for (int64_t col = lane; col < cols; col += kWarp) largest.take(x(row, col));
    put_largest(largest, scale, lane);
  }
};

void find_largest_of(Stream stream, const ConstView& x, CardScale* scale) {
  for_each_place(stream, 1, 1, ForgetOne{scale});
  for_each_row(stream, x.rows, FindLargestOfRow{stored_source(x), x.cols, scale});
}

/// NaN where a value is not finite.
struct PutAmax {
  const CardScale* found;
  float* amax;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const bool is_finite = found->has_nan == 0 && found->amax < kFloatInf;
    *amax = is_finite ? float_of_bits(found->amax) : float_of_bits(0x7FC00000u);
  }
};

void store_each(Stream stream, const StoredTensor& y, const ConstView& x,
                const StepControl* control, int64_t first_row = 0) {
  for_each_place(stream, x.rows, (x.cols + y.together() - 1) / y.together(),
                 StoreEach{y, stored_source(x), control, first_row});
}

/// Of a coded tensor, some rows at a time, into one that is no more than rounded.
void store_decoded(Stream stream, const Store& op, const Scratch& scratch) {
  if (!op.y.cast.is_unscaled()) refuse(Store::kName, *op.x.element, true);
  require_elements(op.y.view);
  const StoredTensor y =
      stored_tensor(Store::kName, op.y, step_key(stream, op.key), op.key.purpose);
  const int64_t count = rows_in(scratch, op.x.cols, op.x.rows);
  auto* strip = scratch.take<float>(Store::kName, count * op.x.cols);
  for (int64_t first = 0; first < op.x.rows; first += count) {
    const int64_t some = std::min(count, op.x.rows - first);
    read_coded(stream, op.x, {first, some}, strip, op.control);
    store_each(stream, y, ConstView(strip, some, op.x.cols, op.x.cols), op.control, first);
  }
}

/// Its decoding scale for gradients that are sent, and what is made of all of them.
struct SentScale {
  CardScale found, next;
  float shared = 0;
  uint32_t is_finite = 0;
};

struct DecideSent {
  SentScale* sent;
  float max;
  bool has_one, is_power;
  const float* amax;
  const AutoScale* scale;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const bool own_is_finite = sent->found.has_nan == 0 && sent->found.amax < kFloatInf;
    const float largest = amax != nullptr ? *amax : float_of_bits(sent->found.amax);
    const bool is_finite = own_is_finite && (float_bits(largest) & 0x7FFFFFFFu) < kFloatInf;
    sent->is_finite = is_finite ? 1 : 0;
    sent->shared = is_finite ? largest : 0;
    if (!has_one) return;
    sent->next.multiplier = wire_encode_scale(encode_scale_of(sent->shared, max, is_power), scale);
    sent->next.decode = 1.0f / sent->next.multiplier;
  }
};

/// Makes a tensor's first value NaN, by its scale where it has one.
struct Poison {
  const SentScale* sent;
  uint8_t* at;
  int bytes;
  uint32_t nan;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    if (sent->is_finite != 0) return;
    for (int i = 0; i < bytes; ++i) at[i] = static_cast<uint8_t>(nan >> (8 * i));
  }
};

Poison poison_of(const View& y, const SentScale* sent) {
  const uint32_t nan = 0x7FC00000u;
  if (y.scales.tensor != nullptr)
    return {sent, reinterpret_cast<uint8_t*>(y.scales.tensor), 4, nan};
  const ElementFormat& element = y.has_scales() ? *y.scales.element : *y.element;
  const uint32_t code = element.bits == 32 ? nan
                                           : ElementCodec(element).encode(float_of_bits(nan), {},
                                                                          OverflowRule::special);
  return {sent, reinterpret_cast<uint8_t*>(y.has_scales() ? y.scales.data : y.data),
          element.bits / 8, code};
}

struct MoveScale {
  MoveAutoScale op;
  int64_t values;
  const uint64_t* saturated;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    if (!skips(op.control)) move_auto_scale(op, static_cast<int64_t>(*saturated), values);
  }
};

/// Values whose blocks or rows have scales.
void store_in_blocks(Stream stream, std::string_view operation, const Stored& y, const ConstView& x,
                     const RandomKey& key, const float* amax, const StepControl* control,
                     CardScale* second) {
  store_blocks(stream,
               {.operation = operation,
                .y = y,
                .key = step_key(stream, key),
                .source = stored_source(x),
                .amax = amax,
                .control = control},
               second);
}

}  // namespace

void perform(Stream stream, const DecideStep& op) { for_each_place(stream, 1, 1, Decide{op}); }

void perform(Stream stream, const Store& op, const Scratch& scratch) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  if (op.x.size() == 0) return;
  auto* scale = scratch.take<CardScale>(Store::kName, 1);
  const bool has_one = has_shared_scale(op.y);
  if (is_coded(op.x)) return store_decoded(stream, op, scratch);
  if (is_coded(op.y.view) || (!op.y.cast.is_unscaled() && !has_one))
    return store_in_blocks(stream, Store::kName, op.y, op.x, op.key, op.amax, op.control, scale);
  const StoredTensor y =
      stored_tensor(Store::kName, op.y, step_key(stream, op.key), op.key.purpose, scale);
  if (has_one) {
    find_largest_of(stream, op.x, scale);
    decide_shared_scale(stream, scale, shared_scale_rule(op.y, false, op.amax));
  }
  store_each(stream, y, op.x, op.control);
  if (has_one) put_shared_scale(stream, op.y, scale, op.control);
}

void perform(Stream stream, const FindAmax& op, const Scratch& scratch) {
  if (op.x.is(fp32_format()) && op.x.contiguous())
    return find_amax(stream, reinterpret_cast<const float*>(op.x.data), op.x.size(), op.amax);
  auto* found = scratch.take<CardScale>(FindAmax::kName, 1);
  find_largest_of(stream, op.x, found);
  for_each_place(stream, 1, 1, PutAmax{found, op.amax});
}

void perform(Stream stream, const StoreGradient& op, const Scratch& scratch) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  if (op.x.size() == 0) return;
  constexpr std::string_view kName = StoreGradient::kName;
  auto* sent = scratch.take<SentScale>(kName, 1);
  const Operand& cast = op.y.cast;
  const bool has_one = has_one_float_scale(cast);
  find_largest_of(stream, op.x, &sent->found);
  for_each_place(stream, 1, 1,
                 DecideSent{sent, range_of(*cast.element).max, has_one,
                            cast.scale == ScaleKind::pow2, op.amax, op.scale});
  if (cast.is_unscaled() || has_one) {
    store_each(stream,
               stored_tensor(kName, op.y, step_key(stream, op.key), op.key.purpose, &sent->next),
               op.x, nullptr);
    if (has_one) put_shared_scale(stream, op.y, &sent->next, nullptr);
  } else {
    store_in_blocks(stream, kName, op.y, op.x, op.key, &sent->shared, nullptr, &sent->next);
  }
  for_each_place(stream, 1, 1, poison_of(op.y.view, sent));
}

void perform(Stream stream, const MoveAutoScale& op, const Scratch& scratch) {
  auto* count = scratch.take<uint64_t>(MoveAutoScale::kName, 1);
  perform(stream, Clear{{reinterpret_cast<std::byte*>(count), sizeof *count}});
  perform(stream, CountLargest{.count = count, .codes = op.codes});
  for_each_place(stream, 1, 1, MoveScale{op, op.codes.size(), count});
}

}  // namespace ng::cuda
