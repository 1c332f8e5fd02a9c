#include "backend/cuda/kernels/moment_strips.h"

#include <algorithm>

namespace ng::cuda {
namespace {

/// Rows that blocks of a moment end with.
int64_t block_height(const Stored& y, int64_t rows) {
  if (!waits_in_strip(y)) return 1;
  if (y.cast.block.kind == Block::Kind::tensor && !y.cast.is_unscaled()) return rows;
  return y.cast.block.kind == Block::Kind::tile ? y.cast.block.rows : 1;
}

}  // namespace

bool waits_in_strip(const Stored& y) {
  return y && (is_coded(y.view) || (!y.cast.is_unscaled() && !has_shared_scale(y)));
}

bool has_coded_moment(const Update& op) {
  return is_coded(op.moment1.view) || is_coded(op.moment2.view);
}

int64_t strip_rows(const Update& op, const Scratch& strips) {
  const int64_t all = op.grad.rows;
  const int64_t first = block_height(op.moment1, all), second = block_height(op.moment2, all);
  const int64_t height = std::max(first, second);
  if (height % first != 0 || height % second != 0)
    throw Unsupported("cuda: update of moments in blocks of such heights");
  const int64_t room = rows_in(strips, 2 * op.grad.cols, all);
  return std::min(all, std::max<int64_t>(room / height, 1) * height);
}

UpdateTensors in_strip(Stream stream, const Update& op, UpdateTensors t, const Scratch& strips,
                       const RowRange& rows) {
  const int64_t values = rows.count * op.grad.cols;
  auto* strip = strips.take<float>(Update::kName, 2 * values);
  const auto lay = [&](StoredTensor& moment, const Stored& y, float* at) {
    if (!waits_in_strip(y)) return;
    moment.strip = at;
    moment.strip_row = rows.first;
    if (moment.is_decoded) read_coded(stream, y.view, rows, at, op.control);
  };
  lay(t.moment1, op.moment1, strip);
  lay(t.moment2, op.moment2, strip + values);
  return t;
}

void store_moments(Stream stream, const Update& op, const UpdateTensors& t, const RowRange& rows,
                   UpdateScratch* scales) {
  const UpdateMaxima* all = op.maxima;
  const auto store = [&](const Stored& y, Purpose purpose, const float* strip, CardScale* level,
                         const float UpdateMaxima::*amax) {
    if (!waits_in_strip(y)) return;
    RandomKey key = op.key;
    key.purpose = purpose;
    key.micro = 0;
    store_blocks(stream,
                 {.operation = Update::kName,
                  .y = y,
                  .key = key,
                  .strip = strip,
                  .strip_row = rows.first,
                  .strip_rows = rows.count,
                  .amax = all != nullptr ? &(all->*amax) : nullptr,
                  .control = op.control},
                 level);
  };
  store(op.moment1, Purpose::moment1, t.moment1.strip, &scales->moment1, &UpdateMaxima::moment1);
  store(op.moment2, Purpose::moment2, t.moment2.strip, &scales->moment2, &UpdateMaxima::moment2);
}

}  // namespace ng::cuda
