#include "backend/cuda/kernels/update_strips.h"

#include <algorithm>
#include <numeric>

#include "backend/cuda/kernels/block_operand.h"

namespace ng::cuda {
namespace {

/// Rows that blocks of a tensor end with.
int64_t block_height(const Stored& y, int64_t rows) {
  if (!waits_in_strip(y)) return 1;
  if (y.cast.block.kind == Block::Kind::tensor && !y.cast.is_unscaled()) return rows;
  return y.cast.block.kind == Block::Kind::tile ? y.cast.block.rows : 1;
}

/// Of the blocks that some rows consist of.
int64_t count_blocks(const Stored& y, int64_t rows) {
  if (!waits_in_strip(y)) return 0;
  const BlockScales scales = stored_source(y.view).scales;
  return (rows + scales.block_rows - 1) / scales.block_rows * scales.across;
}

/// For so many rows, whichever these are.
Strip strip_at(const Update& op, Scratch scratch, int64_t rows) {
  const auto take = [&]<class T>(T*& part, int64_t count) {
    if (count == 0) return;
    part = scratch.take<T>(Update::kName, count);
    scratch = scratch.behind<T>(count);
  };
  Strip strip{.rows = {0, rows}};
  const int64_t values = rows * op.grad.cols;
  take(strip.moment1, waits_in_strip(op.moment1) ? values : 0);
  take(strip.moment2, waits_in_strip(op.moment2) ? values : 0);
  take(strip.weights, waits_in_strip(op.weight.value) ? values : 0);
  take(strip.scales, count_blocks(op.weight.value, rows));
  return strip;
}

size_t bytes_of_strip(const Update& op, int64_t rows) {
  const auto part = [](int64_t count, size_t size) {
    return (static_cast<size_t>(count) * size + 63) / 64 * 64;
  };
  const size_t values = part(rows * op.grad.cols, sizeof(float));
  return (waits_in_strip(op.moment1) ? values : 0) + (waits_in_strip(op.moment2) ? values : 0) +
         (waits_in_strip(op.weight.value) ? values : 0) +
         part(count_blocks(op.weight.value, rows), sizeof(RegionScale));
}

struct PutScales {
  BlockScales to;
  const RegionScale* made;
  int64_t first_row;  ///< of blocks
  const StepControl* control;
  __device__ void operator()(int64_t row, int64_t col) const {
    if (!skips(control))
      put_region_scale(to, (first_row + row) * to.across + col, made[row * to.across + col]);
  }
};

void put_scales(Stream stream, const Update& op, const UpdateStrip& strip) {
  if (!waits_in_strip(op.weight.value)) return;
  const BlockScales& to = strip.by.blocks;
  const RowRange& rows = strip.at.rows;
  for_each_place(stream, (rows.count + to.block_rows - 1) / to.block_rows, to.across,
                 PutScales{to, strip.by.made, rows.first / to.block_rows, op.control});
}

void store_moment(Stream stream, const Update& op, const Stored& y, Purpose purpose,
                  const float* strip, const RowRange& rows, const float* amax, CardScale* level) {
  if (!waits_in_strip(y)) return;
  RandomKey key = op.key;
  key.purpose = purpose;
  key.micro = 0;
  store_blocks(stream,
               {.operation = Update::kName,
                .y = y,
                .key = step_key(stream, key),
                .strip = strip,
                .strip_row = rows.first,
                .strip_rows = rows.count,
                .amax = amax,
                .control = op.control},
               level);
}

}  // namespace

bool waits_in_strip(const Stored& y) {
  return y && (is_coded(y.view) || (!y.cast.is_unscaled() && !has_shared_scale(y)));
}

bool has_coded_moment(const Update& op) {
  return is_coded(op.moment1.view) || is_coded(op.moment2.view);
}
bool has_waiting_moment(const Update& op) {
  return waits_in_strip(op.moment1) || waits_in_strip(op.moment2);
}

int64_t strip_rows(const Update& op, const Scratch& scratch) {
  const int64_t all = op.grad.rows;
  int64_t height = 1;
  for (const Stored* y : {&op.moment1, &op.moment2, &op.weight.value})
    height = std::min(all, std::lcm(height, block_height(*y, all)));
  const size_t of_blocks = std::max<size_t>(bytes_of_strip(op, height), 1);
  return std::min(all,
                  std::max<int64_t>(static_cast<int64_t>(scratch.bytes / of_blocks), 1) * height);
}

UpdateStrip begin_strip(Stream stream, const Update& op, const UpdateTensors& t,
                        const Scratch& scratch, const RowRange& rows) {
  UpdateStrip strip{.at = strip_at(op, scratch, rows.count), .t = t};
  strip.at.rows = rows;
  const auto lay = [&](StoredTensor& moment, const Stored& y, float* at) {
    moment.strip = at;
    moment.strip_row = rows.first;
    if (moment.is_decoded) read_coded(stream, y.view, rows, at, op.control);
  };
  lay(strip.t.moment1, op.moment1, strip.at.moment1);
  lay(strip.t.moment2, op.moment2, strip.at.moment2);
  return strip;
}

void choose_value_scales(Stream stream, const Update& op, UpdateStrip& strip, UpdateScratch* scales,
                         const float* amax) {
  const RowRange& rows = strip.at.rows;
  const BlockJob job = stored_job({.operation = Update::kName,
                                   .y = rounded_value(op.weight),
                                   .key = strip.t.key,
                                   .strip = strip.at.weights,
                                   .strip_row = rows.first,
                                   .strip_rows = rows.count,
                                   .amax = amax,
                                   .control = op.control},
                                  &scales->value);
  choose_region_scales(stream, job, rows.first, rows.count, strip.at.scales);
  strip.by = {.rule = job.rule,
              .blocks = job.y.scales,
              .made = strip.at.scales,
              .first_row = rows.first,
              .cols = op.grad.cols};
}

void end_strip(Stream stream, const Update& op, const UpdateStrip& strip, UpdateScratch* scales) {
  const RowRange& rows = strip.at.rows;
  put_scales(stream, op, strip);
  const UpdateMaxima* all = op.maxima;
  store_moment(stream, op, op.moment1, Purpose::moment1, strip.at.moment1, rows,
               all != nullptr ? &all->moment1 : nullptr, &scales->moment1);
  store_moment(stream, op, op.moment2, Purpose::moment2, strip.at.moment2, rows,
               all != nullptr ? &all->moment2 : nullptr, &scales->moment2);
}

}  // namespace ng::cuda
