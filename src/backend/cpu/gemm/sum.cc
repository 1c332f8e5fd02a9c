#include "backend/cpu/gemm/sum.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm/pairs.h"
#include "backend/cpu/gemm/segments.h"

namespace ng::cpu {
namespace {

// Sum::integer: adds the products of a block of K to local.totals, and those to local.acc where a
// chunk is complete.
void sum_integers(const Job& job, const Place& place, const Panel& a, const Local& local) {
  const TileShape shape = job.tile();
  for (int64_t k = 0; k < place.count; k += kIntegerSegment) {
    const int64_t length = std::min(kIntegerSegment, place.count - k);
    const int64_t count = job.elements(length), at = job.elements(k);
    const float* left = a.elements + at * shape.rows;
    const float* right = local.right.elements + at * shape.cols;
    if (job.has_integers()) {
      const int32_t* starts = a.starts;
      if (starts != nullptr) starts += k / kIntegerSegment * shape.rows;
      job.dots().plain({.count = count,
                        .a = left,
                        .b = right,
                        .starts = starts,
                        .scales = {},
                        .left_words = job.left_words},
                       local.totals);
    } else {
      job.chains().chain(count, left, right, {}, {local.sums, shape.cols});
      add_integers(shape, local.totals, local.sums);
    }
    const int64_t end = place.k + k + length;
    if (end % kIntegerChunk == 0 || end == job.k) add_totals(shape, local.acc, local.totals);
  }
}

// Where the sums of a tile lie in an output of FP32; nowhere in one of BF16.
TileOut tile_in_y(const Job& job, const Place& place) {
  if (job.stores_bf16()) return {};
  return {job.y32.row(place.row) + place.col, job.y32.stride};
}

// A copy is a finish without steps.
void copy_tile(const TileShape& shape, TileIn from, TileOut to) {
  finish_tile(shape, from, to, Finish{});
}

void finish_into_y(const Job& job, const Place& place, const Local& local) {
  const auto rows = static_cast<int>(place.rows);
  const auto cols = static_cast<int>(place.cols);
  float left[kMaxTileRows];
  float right[kMaxTileCols];
  if (job.scaled) {
    for (int i = 0; i < rows; ++i) left[i] = job.a.end_scale(place.row + i);
    for (int j = 0; j < cols; ++j) right[j] = job.b.end_scale(place.col + j);
  }
  const Finish finish{
      .scaled = job.scaled,
      .left_scale = left,
      .right_scale = right,
      .alpha = job.rule.alpha,
      .bias = job.out.bias.rows != 0 ? job.out.bias.as<float>().data + place.col : nullptr,
      .add = job.out.into == Into::add,
      .to_bf16 = job.rounds_to_bf16()};
  const TileIn sums{local.acc, job.kernel.cols};
  if (job.stores_bf16())
    return finish_tile({rows, cols}, sums, job.y16.row(place.row) + place.col, job.y16.stride,
                       finish);
  finish_tile({rows, cols}, sums, tile_in_y(job, place), finish);
}

// Where the sums of a tile come from, and where they are left.
struct Route {
  TileIn from;  // null: +0
  TileOut to;
  bool direct = false;  // `to` is their last place in this block of K; else the local tile
  float factor = 1.0f;  // multiplied into them where that finishes them
};

// Kernels that read and write tiles anywhere work on y (or the partial sums) where the tile is
// whole.
Route route_of(const Job& job, const Place& place, const Local& local, bool anywhere) {
  const TileShape shape = job.tile();
  const TileShape clipped{static_cast<int>(place.rows), static_cast<int>(place.cols)};
  const bool whole = place.rows == shape.rows && place.cols == shape.cols;
  const bool first = place.k == 0;
  const bool last = place.k + place.count == job.k;
  const TileOut in_y = tile_in_y(job, place);
  const TileOut buffer{local.acc, shape.cols};
  const TileOut waiting = job.partial_in_y ? in_y : TileOut{place.partial, shape.cols};

  TileIn from;
  if (!first) from = {waiting.data, waiting.stride};
  if (first && job.out.into == Into::carry) from = {in_y.data, in_y.stride};
  if (from.data != nullptr && (!anywhere || (from.data == in_y.data && !whole))) {
    // What lies beside a part of a tile shall not be the subnormals that sum_bf16_pairs looks for.
    if (!whole) std::fill_n(buffer.data, int64_t{shape.rows} * shape.cols, 0.0f);
    copy_tile(from.data == in_y.data ? clipped : shape, from, buffer);
    from = {buffer.data, buffer.stride};
  }
  const TileOut target = last ? in_y : waiting;
  const bool direct =
      anywhere && (!last || job.finishes_plainly()) && (whole || target.data != in_y.data);
  return {from, direct ? target : buffer, direct, direct && last ? job.factor : 1.0f};
}

// Integer totals go with the sums in the local tile.
void sum_with_totals(const Job& job, const Place& place, const Panel& a, const Local& local,
                     TileIn from) {
  const auto tile = static_cast<size_t>(job.kernel.rows) * static_cast<size_t>(job.kernel.cols);
  if (from.data == nullptr) std::memset(local.acc, 0, tile * sizeof(float));
  if (place.k == 0)
    std::memset(local.totals, 0, tile * sizeof(int32_t));
  else
    std::memcpy(local.totals, place.partial_totals, tile * sizeof(int32_t));
  sum_integers(job, place, a, local);
  if (place.k + place.count < job.k)
    std::memcpy(place.partial_totals, local.totals, tile * sizeof(int32_t));
}

}  // namespace

void run_tile(const Job& job, const Place& place, const Panel& a, const Local& local) {
  const Sum sum = job.rule.sum;
  const Route route = route_of(job, place, local, sum != Sum::integer);
  if (sum == Sum::integer)
    sum_with_totals(job, place, a, local, route.from);
  else if (job.has_scaled_sums())
    sum_segments(job, place.count, a, local, route.from, route.to, route.factor);
  else if (sum == Sum::tile32)
    job.tile32(job.elements(place.count), a.elements, local.right.elements, route.from, route.to);
  else if (job.units == Units::bf16)
    sum_bf16_pairs(job, place.count, a, local, route.from, route.to);
  else
    job.chains().chain(place.count, a.elements, local.right.elements, route.from, route.to);
  if (route.direct) return;
  if (place.k + place.count == job.k) return finish_into_y(job, place, local);
  const TileIn sums{local.acc, job.kernel.cols};
  if (job.partial_in_y)
    copy_tile({static_cast<int>(place.rows), static_cast<int>(place.cols)}, sums,
              tile_in_y(job, place));
  else
    copy_tile(job.tile(), sums, {place.partial, job.kernel.cols});
}

}  // namespace ng::cpu
