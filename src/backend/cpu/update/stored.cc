#include "backend/cpu/update/stored.h"

#include <atomic>
#include <cstring>
#include <numeric>

#include "backend/cpu/quantize/job.h"
#include "backend/cpu/update/codes.h"
#include "backend/cpu/update/e4m3.h"
#include "backend/gradient_scale.h"
#include "format/codec.h"
#include "format/packing.h"
#include "format/scale.h"

namespace ng::cpu {
namespace {

void refuse_what_is_not_stored(std::string_view operation, const Operand& cast) {
  const bool rare = cast.overflow == Overflow::special && cast.element->short_name != "bf16";
  if (!rare && cast.prescale == 1 && cast.scaling == Scaling::current &&
      (cast.rounding == Rounding::nearest || cast.sr_bits != 32) &&
      cast.scale_rule != ScaleRule::mse && cast.element->specials != Specials::fnuz)
    return;
  throw Unsupported(fmt::format("cpu: {} of a tensor stored as {}", operation, describe(cast)));
}

}  // namespace

Stored as_stored(const ConstView& x) {
  Stored stored;
  if (x.rows == 0) return stored;
  stored.view = {const_cast<std::byte*>(x.data), *x.element, x.rows, x.cols, x.stride};
  stored.cast.element = x.element;
  stored.view.low = const_cast<std::byte*>(x.low);
  if (x.low != nullptr) stored.cast.parts = 2;
  if (!x.has_scales()) return stored;
  set_coding(stored.cast, x.scales.coding);
  stored.view.scales = {
      const_cast<std::byte*>(x.scales.data), x.scales.element, x.scales.block,
      const_cast<float*>(x.scales.tensor),   x.scales.coding,  const_cast<float*>(x.scales.power),
      const_cast<float*>(x.scales.center)};
  stored.cast.scale = ScaleKind::fp32;
  stored.cast.block = x.scales.block;
  return stored;
}

StoredCodec::StoredCodec(std::string_view operation, const Stored& stored, const RandomKey& key,
                         Purpose purpose)
    : view_(stored.view), cast_(stored.cast), key_(key) {
  key_.purpose = purpose;
  if (view_.rows == 0) return;
  NG_CHECK(view_.is(*cast_.element) && view_.has_scales() == !cast_.is_unscaled(),
           view_.element->name, cast_.element->name);
  refuse_what_is_not_stored(operation, cast_);
  if (block_cols() > kStretch && cast_.block.kind == Block::Kind::tile)
    throw Unsupported(fmt::format("cpu: {} of blocks of {}", operation, text_of(cast_.block)));
  request_ = scale_request(cast_);
  grid_ = element_grid(*cast_.element, cast_.overflow);
  if (cast_.element->bits <= 16) decoder_ = code_decoder(*cast_.element);
}

int64_t StoredCodec::unit() const {
  const bool tiles = *this && !cast_.is_unscaled() && cast_.block.kind == Block::Kind::tile;
  return std::lcm<int64_t>(16, tiles ? cast_.block.cols : 1);
}

bool StoredCodec::can_be_flat() const {
  if (!*this) return true;
  if (view_.stride != view_.cols || view_.cols % 8 != 0) return false;
  if (cast_.is_unscaled() || cast_.block.kind == Block::Kind::tensor) return true;
  return cast_.block.kind == Block::Kind::tile && cast_.block.rows == 1 &&
         view_.cols % cast_.block.cols == 0;
}

void StoredCodec::make_flat() {
  view_.cols = view_.stride = view_.rows * view_.cols;
  if (view_.rows > 0) view_.rows = 1;
}

bool StoredCodec::needs_pass() const {
  if (!*this || cast_.is_unscaled()) return false;
  const bool within = cast_.block.kind == Block::Kind::tile && cast_.block.rows == 1;
  return !within || cast_.tensor_scale != ScaleKind::none;
}

int64_t StoredCodec::block_cols() const {
  return cast_.block.kind == Block::Kind::tile ? cast_.block.cols : view_.cols;
}

int64_t StoredCodec::scale_count() const {
  if (!needs_pass()) return 0;
  const ScaleShape shape = scale_shape(cast_, view_.rows, view_.cols);
  return shape.rows * shape.cols;
}

void StoredCodec::set_pass_memory(uint32_t* amax, float* decode, float* multiplier) {
  amax_ = amax;
  decode_ = decode;
  multiplier_ = multiplier;
  std::fill_n(amax_, scale_count(), 0u);
}

int64_t StoredCodec::blocks_in(const Stretch& at) const {
  return cast_.block.kind == Block::Kind::tile ? ceil_div(at.count, block_cols()) : 1;
}

std::byte* StoredCodec::memory(const Stretch& at) const {
  return view_.data + (at.row * view_.stride + at.col) * view_.element->bits / 8;
}

float* StoredCodec::place(const Stretch& at) const { return reinterpret_cast<float*>(memory(at)); }

const uint16_t* StoredCodec::codes(const Stretch& at, StretchScratch& scratch) const {
  const int bits = view_.element->bits;
  const std::byte* from = memory(at);
  if (bits == 16) return reinterpret_cast<const uint16_t*>(from);
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  if (bits == 8)
    std::copy_n(bytes, at.count, scratch.codes);
  else
    unpack_codes({bytes, packed_bytes(at.count, bits)}, bits,
                 {scratch.codes, static_cast<size_t>(at.count)});
  return scratch.codes;
}

const float* StoredCodec::read(const Stretch& at, float* buffer, StretchScratch& scratch) const {
  if (cast_.is_fp32()) return place(at);
  if (cast_.is_coded()) {
    read_coded(coded(at), buffer);
    return buffer;
  }
  if (!view_.has_scales()) {
    if (view_.is(bf16_format()))
      widen_row(reinterpret_cast<const Bf16*>(memory(at)), at.count, buffer);
    else
      dequantize_row(decoder_, {.codes = codes(at, scratch), .cols = at.count}, buffer);
    return buffer;
  }
  dequantize_row(decoder_,
                 {.codes = codes(at, scratch),
                  .cols = at.count,
                  .block = shared_cols(at),
                  .scales = stored_scales(at, scratch),
                  .tensor_scale = stored_tensor_scale()},
                 buffer);
  return buffer;
}

void StoredCodec::read_elements(const Stretch& at, float* elements, StretchScratch& scratch) const {
  dequantize_row(decoder_, {.codes = codes(at, scratch), .cols = at.count}, elements);
}

const float* StoredCodec::stored_scales(const Stretch& at, StretchScratch& scratch) const {
  if (!view_.has_scales()) {
    scratch.decode[0] = 1.0f;
    return scratch.decode;
  }
  const int64_t first = scale_at(at), blocks = blocks_in(at);
  for (int64_t b = 0; b < blocks; ++b)
    scratch.decode[b] = scale_of_code(*view_.scales.element, view_.scales.data, first + b);
  return scratch.decode;
}

void StoredCodec::note(const Stretch& at, const float* values, StretchScratch& scratch) const {
  const int64_t blocks = blocks_in(at), first = scale_at(at);
  std::fill_n(scratch.amax, blocks, 0u);
  block_amax({values, at.count}, 1, at.count,
             {.amax = scratch.amax,
              .stride = 0,
              .rows_per_block = 1,
              .block = blocks > 1 ? block_cols() : at.count});
  for (int64_t b = 0; b < blocks; ++b) note_largest(scratch.amax[b], first + b);
}

void StoredCodec::note_largest(uint32_t amax, int64_t block) const {
  const std::atomic_ref<uint32_t> largest(amax_[block]);
  uint32_t seen = largest.load(std::memory_order_relaxed);
  while (seen < amax && !largest.compare_exchange_weak(seen, amax, std::memory_order_relaxed)) {
  }
}

void StoredCodec::note_of_all(float amax) {
  amax_of_all_ = float_bits(amax);
  if (cast_.block.kind == Block::Kind::tensor) note_largest(amax_of_all_, 0);
}

uint32_t StoredCodec::largest() const {
  return std::atomic_ref<uint32_t>(amax_[0]).load(std::memory_order_relaxed);
}

void StoredCodec::find_scales(bool sticky) {
  if (!needs_pass()) return;
  if (sticky && cast_.has_one_power_of_two()) {
    const float now = *reinterpret_cast<const float*>(view_.scales.data);
    multiplier_[0] = sticky_encode_scale(1.0f / now, float_of_bits(amax_[0]), request_.max);
    decode_[0] = 1.0f / multiplier_[0];
    return;
  }
  const int64_t count = scale_count();
  if (request_.kind == ScaleKind::e4m3) {
    const uint32_t largest = std::max(amax_of_all_, *std::max_element(amax_, amax_ + count));
    request_.two_level = two_level_scale(cast_.tensor_scale, float_of_bits(largest), request_.max);
  }
  block_scales(request_, amax_, count, decode_, multiplier_);
}

void StoredCodec::scale_for_wire(const AutoScale* scale) {
  multiplier_[0] = wire_encode_scale(multiplier_[0], scale);
  decode_[0] = 1.0f / multiplier_[0];
}

void StoredCodec::round_maxima(const StoredCodec& other) const {
  NG_CHECK(other.cast_.block.kind == Block::Kind::tensor, text_of(other.cast_.block));
  const ElementCodec codec(*other.cast_.element);
  const float encode = other.encode_scale(), decode = 1.0f / encode;
  for (int64_t i = 0; i < scale_count(); ++i) {
    const uint32_t code = codec.encode(float_of_bits(amax_[i]) * encode);
    amax_[i] = float_bits(codec.decode(code) * decode);
  }
}

bool StoredCodec::is_e4m3_of_one_scale() const {
  return cast_.element->short_name == "e4m3" &&
         (cast_.is_unscaled() || cast_.block.kind == Block::Kind::tensor);
}

float StoredCodec::encode_scale() const { return needs_pass() ? multiplier_[0] : 1.0f; }

void StoredCodec::scale_stretch(const Stretch& at, const float* values,
                                StretchScratch& scratch) const {
  const int64_t blocks = blocks_in(at);
  std::fill_n(scratch.amax, blocks, 0u);
  block_amax({values, at.count}, 1, at.count,
             {.amax = scratch.amax, .stride = 0, .rows_per_block = 1, .block = block_cols()});
  block_scales(request_, scratch.amax, blocks, scratch.decode, scratch.multiplier);
}

void StoredCodec::draw(const Stretch& at, uint16_t* draws) const {
  const int64_t per_row = ceil_div(view_.cols, 8);
  const DrawBox box{.group = static_cast<uint64_t>(at.row * per_row + at.col / 8),
                    .group_stride = 0,
                    .rows = 1,
                    .groups = ceil_div(at.count, 8)};
  draw_rows(key_, box, draws, 0);
}

const uint16_t* StoredCodec::draws_of(const Stretch& at, StretchScratch& scratch) const {
  if (cast_.rounding != Rounding::stochastic) return nullptr;
  draw(at, scratch.draws);
  if (cast_.sr_bits == 8)
    for (int64_t i = 0; i < at.count; ++i) scratch.draws[i] &= 0xFF00;
  return scratch.draws;
}

void StoredCodec::round(const Stretch& at, const float* values, float* elements,
                        StretchScratch& scratch) const {
  if (cast_.is_fp32()) {
    if (values != elements) std::copy_n(values, at.count, elements);
    return;
  }
  EncodeTile tile{.values = {values, at.count}, .rows = 1, .cols = at.count};
  const int64_t blocks = cast_.is_unscaled() ? 1 : blocks_in(at);
  if (needs_pass())
    std::copy_n(multiplier_ + scale_at(at), blocks, scratch.multiplier);
  else if (!cast_.is_unscaled())
    scale_stretch(at, values, scratch);
  else
    scratch.multiplier[0] = scratch.decode[0] = 1.0f;
  tile.block = block_cols();
  if (blocks == 1) {  // whole vectors of one block, and what is left as another
    tile.block = std::max<int64_t>(16, at.count / 16 * 16);
    scratch.multiplier[1] = scratch.multiplier[0];
  }
  tile.counted_cols = at.count;
  tile.multipliers = scratch.multiplier;
  tile.divides = cast_.element->kind == ElementKind::integer &&
                 (cast_.scale == ScaleKind::fp32 || cast_.scale == ScaleKind::pow2);
  tile.draws = draws_of(at, scratch);
  const bool wide = grid_.kind == ElementGrid::Kind::fp16;
  tile.form = wide ? ElementForm::fp32 : ElementForm::bf16;
  tile.out = wide ? static_cast<void*>(elements) : scratch.elements;
  tile.out_stride = at.count;
  encode_tile(grid_, tile);
  if (!wide) widen_row(reinterpret_cast<const Bf16*>(scratch.elements), at.count, elements);
}

void StoredCodec::decode(const Stretch& at, const float* elements, float* values,
                         const StretchScratch& scratch) const {
  if (cast_.is_unscaled()) {
    std::copy_n(elements, at.count, values);
    return;
  }
  const float* scales = new_scales(at, scratch);
  const int64_t block = shared_cols(at);
  for (int64_t i = 0; i < at.count; i += block) {
    const float scale = scales[i / block];
    for (int64_t k = i; k < std::min(at.count, i + block); ++k)
      values[k] = elements[k] * scale * request_.two_level.tensor;
  }
}

void StoredCodec::put_scale(int64_t at, float decode) const {
  const ElementFormat& element = *view_.scales.element;
  if (element == fp32_format())
    reinterpret_cast<float*>(view_.scales.data)[at] = decode;
  else if (element.kind == ElementKind::power)
    view_.scales.data[at] = static_cast<std::byte>(float_bits(decode) >> 23);
  else
    view_.scales.data[at] =
        static_cast<std::byte>(encode_float(e4m3_grid(), decode, {}, OverflowRule::saturate));
}

void StoredCodec::put(const Stretch& at, const float* elements, StretchScratch& scratch) const {
  const int bits = view_.element->bits;
  if (cast_.is_fp32()) {
    if (elements != place(at)) std::copy_n(elements, at.count, place(at));
    return;
  }
  auto* const to = reinterpret_cast<uint8_t*>(memory(at));
  if (bits == 16) {
    codes_of(*view_.element, elements, at.count, reinterpret_cast<uint16_t*>(to));
  } else {
    codes_of(*view_.element, elements, at.count, scratch.codes);
    if (bits == 8)
      for (int64_t i = 0; i < at.count; ++i) to[i] = static_cast<uint8_t>(scratch.codes[i]);
    else
      pack_codes({scratch.codes, static_cast<size_t>(at.count)}, bits,
                 {to, packed_bytes(at.count, bits)});
  }
  if (cast_.is_unscaled() || needs_pass()) return;
  const int64_t first = scale_at(at), blocks = blocks_in(at);
  for (int64_t b = 0; b < blocks; ++b) put_scale(first + b, scratch.decode[b]);
}

void StoredCodec::write(const Stretch& at, const float* values, float* buffer,
                        StretchScratch& scratch) const {
  if (cast_.is_fp32()) return put(at, values, scratch);
  if (cast_.is_coded()) return write_coded(coded(at), values);
  if (is_e4m3_of_one_scale())
    return store_e4m3(grid_, {values, static_cast<size_t>(at.count)}, encode_scale(),
                      draws_of(at, scratch), memory(at));
  round(at, values, buffer, scratch);
  put(at, buffer, scratch);
}

void StoredCodec::put_scales() const {
  if (!needs_pass()) return;
  const int64_t count = scale_count();
  for (int64_t i = 0; i < count; ++i) put_scale(i, decode_[i]);
  if (view_.scales.tensor != nullptr) *view_.scales.tensor = request_.two_level.tensor;
}

// Scales must be FP32: of one block for all, or of parts of chunks.
ChunkTensor StoredCodec::chunk_tensor() const {
  using Kind = ChunkTensor::Kind;
  ChunkTensor t;
  if (!*this) return t;
  const std::string_view name = cast_.element->short_name;
  t.kind = Kind::other;
  if (cast_.is_coded()) return t;
  t.data = view_.data;
  t.grid = grid_;
  t.key = key_;
  t.is_stochastic = cast_.rounding == Rounding::stochastic;
  if (cast_.tensor_scale != ScaleKind::none || (t.is_stochastic && cast_.sr_bits != 16)) return t;
  if (cast_.is_unscaled() && cast_.is_fp32()) t.kind = Kind::fp32;
  if (cast_.is_unscaled() && name == "bf16") t.kind = Kind::bf16;
  const bool has_floats = view_.has_scales() && view_.scales.element == &fp32_format();
  const bool is_one = cast_.is_unscaled() || (has_floats && needs_pass() && scale_count() == 1);
  const bool in_chunks =
      has_floats && !needs_pass() && kChunk % block_cols() == 0 && block_cols() % 16 == 0;
  if (name == "fp16" && is_one && !t.is_stochastic) t.kind = Kind::fp16;
  if (name == "e4m3" && (is_one || in_chunks)) t.kind = Kind::e4m3;
  if (cast_.is_unscaled() || t.kind == Kind::other) return t;
  t.scales = reinterpret_cast<float*>(view_.scales.data);
  t.has_powers = cast_.scale == ScaleKind::pow2;
  if (in_chunks) {
    t.block = block_cols();
  } else {
    t.decode = t.scales[0];
    t.encode = multiplier_ != nullptr ? multiplier_[0] : 1.0f;
  }
  return t;
}

StretchWalk walk_through(std::span<StoredCodec* const> codecs, int64_t rows, int64_t cols,
                         bool& is_flat) {
  int64_t unit = 16;
  for (const StoredCodec* codec : codecs) {
    unit = std::lcm(unit, codec->unit());
    is_flat = is_flat && codec->can_be_flat();
  }
  if (unit > kStretch) throw Unsupported(fmt::format("cpu: blocks of {} together", unit));
  if (!is_flat) return {rows, cols, unit};
  for (StoredCodec* codec : codecs) codec->make_flat();
  return {1, rows * cols, unit};
}

}  // namespace ng::cpu
