#include "backend/cpu/quantize/eden.h"

#include <algorithm>

#include "backend/cpu/quantize/exact.h"
#include "base/error.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

constexpr int64_t kGroups = 16;  // rows whose groups are summed side by side
constexpr int64_t kSlice = 32;   // of a block, on its way to lanes

// Σ y² and Σ y·v of one group each, v = decoded y, along K.
struct Sums {
  alignas(64) double squares[kGroups] = {};
  alignas(64) double products[kGroups] = {};
};

// What is drawn for the scale of each block: by its first element.
class Randoms {
 public:
  Randoms(const QuantizeJob& job, const Piece& rows, uint16_t* draws)
      : job_(job), rows_(rows), by_block_(job.plan.block_cols % 8 == 0 && bits() != 32) {
    if (by_block_) draws_ = job.source.draw_blocks(rows, job.plan.block_cols, draws);
  }

  uint32_t operator()(int64_t row, int64_t block) const {
    if (by_block_) return draws_(row, block) >> (16 - bits());
    return job_.source.random_bits(rows_.row + row, rows_.k + block * job_.plan.block_cols, bits());
  }

 private:
  [[nodiscard]] int bits() const { return job_.spec.cast.sr_bits; }

  const QuantizeJob& job_;
  const Piece& rows_;
  bool by_block_;
  BlockDraws draws_;
};

// Of the groups from column `first` on, of `rows` rows from r on.
void add_groups(const QuantizeJob& job, const RoundedPiece& piece, int64_t r, int64_t rows,
                int64_t first, Sums& sums) {
  const int64_t block = job.plan.block_cols;
  alignas(64) float values[kSlice * kGroups] = {};
  alignas(64) float multipliers[kGroups] = {}, scales[kGroups] = {}, tensors[kGroups] = {};
  for (int64_t i = 0; i < rows; ++i)
    tensors[i] = job.second_level(piece.at.row + r + i, piece.at.k + first).tensor;
  for (int64_t c = first; c < first + job.spec.hadamard.size; c += block) {
    for (int64_t i = 0; i < rows; ++i) {
      multipliers[i] = piece.multiplier[(r + i) * piece.stride + c / block];
      scales[i] = piece.decode[(r + i) * piece.stride + c / block];
    }
    for (int64_t done = 0; done < block; done += kSlice) {
      const int64_t count = std::min(kSlice, block - done);
      transpose(piece.values.from(r, c + done), rows, count, values, kGroups);
      add_projections(job.grid,
                      {.values = values,
                       .count = count,
                       .prescale = job.spec.cast.prescale,
                       .multipliers = multipliers,
                       .scales = scales,
                       .tensor_scales = tensors},
                      sums.squares, sums.products);
    }
  }
}

// The same, by the scalar definition.
void add_groups_exactly(const QuantizeJob& job, const RoundedPiece& piece, int64_t r, int64_t rows,
                        int64_t first, Sums& sums) {
  const int64_t block = job.plan.block_cols;
  const ElementCodec codec(*job.spec.cast.element, job.spec.cast.subnormals);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = first; c < first + job.spec.hadamard.size; ++c) {
      const int64_t scale = (r + i) * piece.stride + c / block;
      const float y = piece.values(r + i, c);
      const float q = exact_element(job, codec, exact_scaled(job, y, piece.multiplier[scale]),
                                    piece.at.row + r + i, piece.at.k + c, false);
      sums.squares[i] += double{y} * double{y};
      const float tensor = job.second_level(piece.at.row + r + i, piece.at.k + first).tensor;
      sums.products[i] += double{y} * double{q * piece.decode[scale] * tensor};
    }
}

}  // namespace

void correct_scales(const QuantizeJob& job, const RoundedPiece& piece, bool by_definition,
                    uint16_t* draws) {
  const int64_t group = job.spec.hadamard.size, block = job.plan.block_cols;
  NG_CHECK(group > 0 && group % block == 0 && piece.at.cols % group == 0, group, block,
           piece.at.cols);
  const auto add = by_definition ? add_groups_exactly : add_groups;
  for (int64_t r = 0; r < piece.at.rows; r += kGroups) {
    Piece rows = piece.at;
    rows.row += r;
    rows.rows = std::min(kGroups, piece.at.rows - r);
    const Randoms randoms(job, rows, draws);
    for (int64_t first = 0; first < piece.at.cols; first += group) {
      Sums sums;
      add(job, piece, r, rows.rows, first, sums);
      for (int64_t i = 0; i < rows.rows; ++i) {
        const float correction = eden_correction(sums.squares[i], sums.products[i]);
        for (int64_t b = first / block; b < (first + group) / block; ++b) {
          float& scale = piece.decode[(r + i) * piece.stride + b];
          scale = eden_scale(scale, correction, job.spec.cast.sr_bits, randoms(i, b));
        }
      }
    }
  }
}

}  // namespace ng::cpu
