#include "backend/cpu/quantize/source.h"

#include <algorithm>
#include <bit>

#include "backend/backend.h"

namespace ng::cpu {
namespace {

int64_t floor_to(int64_t x, int64_t multiple) { return x / multiple * multiple; }
int64_t ceil_to(int64_t x, int64_t multiple) { return floor_to(x + multiple - 1, multiple); }

/// The piece with the rest of the Hadamard groups at both ends.
Piece whole_groups(const Piece& piece, int64_t size) {
  const int64_t first = floor_to(piece.k, size);
  return {.row = piece.row,
          .rows = piece.rows,
          .k = first,
          .cols = ceil_to(piece.k + piece.cols, size) - first};
}

}  // namespace

void keep_high_bytes(uint16_t* draws, int64_t count) {
  std::for_each(draws, draws + count, [](uint16_t& draw) { draw &= 0xFF00; });
}

OperandSource::OperandSource(const OperandSpec& spec, const ConstView& source, const RandomKey& key,
                             const DrawGroups& groups, const float* mean)
    : spec_(spec), source_(source), key_(key), groups_(groups), mean_(mean) {
  if (source.rows == 0) return;
  if (source.is(fp32_format()))
    values_ = {source.as<float>().data, source.stride};
  else if (source.is(bf16_format()))
    values_ = {source.as<Bf16>().data, source.stride};
  else
    throw Unsupported(fmt::format("cpu: an operand made of {}", source.element->name));
}

void OperandSource::widen(int64_t row, int64_t col, int64_t count, float* to) const {
  const TileValues from = values(row, col);
  if (from.is_bf16())
    widen_row(from.bf16(), count, to);
  else
    std::copy_n(from.fp32(), count, to);
  for (int64_t i = 0; has_mean() && i < count; ++i) to[i] -= mean_[col + i];
}

// Values of the piece before any transform, without their mean, +0 from spec.k on.
void OperandSource::copy(const Piece& piece, float* buffer, int64_t stride) const {
  const int64_t present = std::clamp<int64_t>(spec_.k - piece.k, 0, piece.cols);
  if (spec_.contract == Contract::rows && present > 0) {
    transpose(values(piece.k, piece.row), present, piece.rows, buffer, stride);
  }
  for (int64_t r = 0; r < piece.rows; ++r) {
    float* to = buffer + r * stride;
    if (spec_.contract == Contract::cols && present > 0)
      widen(piece.row + r, piece.k, present, to);
    else if (has_mean())
      for (int64_t i = 0; i < present; ++i) to[i] -= mean_[piece.row + r];
    std::fill(to + present, to + piece.cols, 0.0f);
  }
}

// Values of whole Hadamard groups and `by` what they go through: as they lie where all of them do,
// else copied.
TileValues OperandSource::before_transform(const Piece& piece, float* buffer, int64_t stride,
                                           HadamardRule& by) const {
  by = transform_from(piece.k);
  if (spec_.contract == Contract::cols && piece.k + piece.cols <= spec_.k)
    return values(piece.row, piece.k);
  by.mean = nullptr;
  copy(piece, buffer, stride);
  return {buffer, stride};
}

PieceValues OperandSource::load(const Piece& piece, float* buffer) const {
  const int64_t size = spec_.hadamard.size, stride = buffer_stride(piece.cols);
  if (size == 0) {
    const bool is_there = spec_.contract == Contract::cols && piece.k + piece.cols <= spec_.k;
    if (is_there && !has_mean()) return {values(piece.row, piece.k), true};
    copy(piece, buffer, stride);
    return {{buffer, stride}, false};
  }
  const Piece whole = whole_groups(piece, size);
  HadamardRule by;
  const TileValues from = before_transform(whole, buffer, stride, by);
  hadamard_rows(from, {buffer, whole.rows, whole.cols, stride}, by);
  return {{buffer + (piece.k - whole.k), stride}, false};
}

uint32_t OperandSource::amax(const Piece& piece, float* buffer) const {
  const Piece whole = whole_groups(piece, spec_.hadamard.size);
  HadamardRule by;
  const TileValues from = before_transform(whole, buffer, buffer_stride(piece.cols), by);
  return hadamard_amax(from, whole.rows, whole.cols, by);
}

PieceDraws OperandSource::draw(const Piece& piece, uint16_t* draws, uint32_t* words) const {
  const PieceDraws drawn = spec_.contract == Contract::rows ? draw_turned(piece, draws, words)
                                                            : draw_straight(piece, draws);
  if (spec_.cast.sr_bits == 8)
    for (int64_t r = 0; r < piece.rows; ++r)
      keep_high_bytes(drawn.data + r * drawn.stride, piece.cols);
  return drawn;
}

PieceDraws OperandSource::draw_straight(const Piece& piece, uint16_t* draws) const {
  const int64_t stride = draw_stride(piece.cols);
  const int64_t first = piece.k / 8;
  const int64_t count = (piece.k + piece.cols + 7) / 8 - first;
  const int64_t group = groups_.first + piece.row * groups_.per_row + first;
  draw_rows(key_,
            {.group = static_cast<uint64_t>(group),
             .group_stride = static_cast<uint64_t>(groups_.per_row),
             .rows = piece.rows,
             .groups = count},
            draws, stride);
  return {draws + (piece.k - 8 * first), stride};
}

// A strip of 16 source columns at a time: drawn row by row, then turned as pairs of columns.
PieceDraws OperandSource::draw_turned(const Piece& piece, uint16_t* draws, uint32_t* words) const {
  const int64_t stride = draw_stride(piece.cols);
  const int64_t first = floor_to(piece.row, kStrip);
  uint32_t* turned = words + kStrip / 2 * stride;
  for (int64_t col = first; col < piece.row + piece.rows; col += kStrip) {
    const int64_t group = groups_.first + piece.k * groups_.per_row + col / 8;
    draw_strip(key_,
               {.group = static_cast<uint64_t>(group),
                .group_stride = static_cast<uint64_t>(groups_.per_row),
                .rows = piece.cols,
                .groups = kStrip / 8},
               reinterpret_cast<uint16_t*>(words));
    transpose_words(words, kStrip / 2, piece.cols, kStrip / 2, turned, stride);
    split_halves(turned, kStrip / 2, piece.cols, stride, draws + (col - first) * stride);
  }
  return {draws + (piece.row - first) * stride, stride};
}

BlockDraws OperandSource::draw_blocks(const Piece& piece, int64_t block, uint16_t* draws) const {
  const int64_t blocks = piece.cols / block;
  if (spec_.contract == Contract::cols) {
    for (int64_t r = 0; r < piece.rows; ++r) {
      const int64_t group = groups_.first + (piece.row + r) * groups_.per_row + piece.k / 8;
      draw_strip(key_,
                 {.group = static_cast<uint64_t>(group),
                  .group_stride = static_cast<uint64_t>(block / 8),
                  .rows = blocks,
                  .groups = 1},
                 draws + r * blocks * 8);
    }
    return {draws, blocks * 8, 8};
  }
  const int64_t first = floor_to(piece.row, 8);  // eight rows of one k are of one group
  const auto used = static_cast<uint64_t>(ceil_to(piece.row + piece.rows, 8) - first) / 8;
  const auto groups = static_cast<int64_t>(std::bit_ceil(used));
  draw_strip(key_,
             {.group = static_cast<uint64_t>(groups_.first + piece.k * groups_.per_row + first / 8),
              .group_stride = static_cast<uint64_t>(block * groups_.per_row),
              .rows = blocks,
              .groups = groups},
             draws);
  return {draws + (piece.row - first), 1, 8 * groups};
}

uint32_t OperandSource::random_bits(int64_t row, int64_t k, int bits) const {
  const bool straight = spec_.contract == Contract::cols;
  return cpu::random_bits(key_, groups_, straight ? row : k, straight ? k : row, bits);
}

}  // namespace ng::cpu
