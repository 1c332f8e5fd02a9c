#include "backend/cpu/ops/reduce.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/types.h"
#include "backend/cpu/update/stored.h"
#include "format/codec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/reduce.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// sum[c] = Σ x[r][c], r ascending.
void ColumnSumsBlock(float* sum, ConstView x) {
  std::fill_n(sum, x.cols, 0.0f);
  WithStored(x, [&](auto in) HWY_ATTR {
    const auto from = in.RowsOf(x);
    for (int64_t r = 0; r < x.rows; ++r) {
      ForLanes(x.cols, [&](int64_t i, auto left) HWY_ATTR {
        Store16(Add(Load16(sum + i, left), Load16(from.row(r) + i, left)), sum + i, left);
      });
    }
  });
}

// Columns [first, first + cols) of the fold.
void FoldColumns(float* sum, float* partial, ColumnSumBlocks cut, int64_t first, int64_t cols) {
  for (int64_t apart = 1; apart < cut.blocks; apart *= 2) {
    for (int64_t b = 0; b + apart < cut.blocks; b += 2 * apart) {
      float* to = partial + b * cut.pitch + first;
      const float* from = to + apart * cut.pitch;
      ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
        Store16(Add(Load16(to + i, left), Load16(from + i, left)), to + i, left);
      });
    }
  }
  ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
    const F16 total = Load16(partial + first + i, left);
    Store16(Add(Load16(sum + first + i, left), total), sum + first + i, left);
  });
}

// Chunks are one row.
double SumChunk(ConstView chunk) {
  double sum = 0;
  WithStored(chunk, [&](auto in) HWY_ATTR {
    const auto* x = in.RowsOf(chunk).data;
    sum = TreeSum<double>(chunk.cols,
                          [=](int64_t i, auto left) HWY_ATTR { return Doubles(x + i, left); });
  });
  return sum;
}

// The squares are exact in double.
double SumOfSquaresChunk(ConstView chunk) {
  double sum = 0;
  WithStored(chunk, [&](auto in) HWY_ATTR {
    const auto* x = in.RowsOf(chunk).data;
    sum = TreeSum<double>(chunk.cols, [=](int64_t i, auto left) HWY_ATTR {
      const D16 v = Doubles(x + i, left);
      return Mul(v, v);
    });
  });
  return sum;
}

// A whole number.
double NonfiniteChunk(ConstView chunk) {
  int64_t found = 0;
  WithStored(chunk, [&](auto in) HWY_ATTR {
    const auto* x = in.RowsOf(chunk).data;
    const U16 exponent = Set16(0x7F800000u);
    ForLanes(chunk.cols, [&](int64_t i, auto left) HWY_ATTR {
      const U16 bits = Bits<uint32_t>(Load16(x + i, left));
      found += CountTrue(Eq(And(bits, exponent), exponent));
    });
  });
  return static_cast<double>(found);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(ColumnSumsBlock);
HWY_EXPORT(FoldColumns);
HWY_EXPORT(SumChunk);
HWY_EXPORT(SumOfSquaresChunk);
HWY_EXPORT(NonfiniteChunk);

namespace {

constexpr int64_t kMaxBlocks = 64;               // enough for the threads of one socket
constexpr int64_t kMinBlockRows = 8;             // fewer would spend the time in the fold
constexpr int64_t kFoldColumns = 256;            // columns one worker folds at a time
constexpr int64_t kSliceColumns = 65536;         // columns summed at once; bounds the scratch
constexpr int64_t kTreeItem = int64_t{1} << 18;  // 64 chunks of the tree: one subtree

// `count` values from the element with contiguous index `first`, as one row; gathered into `buffer`
// where the rows do not lie one after another.
ConstView chunk_of(const ConstView& x, int64_t first, int64_t count, std::byte* buffer) {
  if (x.contiguous()) return flattened(x).columns(first, count);
  const ConstView gathered{buffer, *x.element, 1, count, count};
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / x.cols, col = (first + done) % x.cols;
    const ConstView run = x.part(row, 1, col, std::min(count - done, x.cols - col));
    std::memcpy(buffer, run.data, run.bytes());
    buffer += run.bytes();
    done += run.cols;
  }
  return gathered;
}

// The same of a tensor in few bits, decoded into `buffer`. Codecs read from the start of a block.
ConstView decoded_chunk(const ConstView& x, const StoredCodec& codec, int64_t first, int64_t count,
                        std::byte* buffer) {
  auto* const values = reinterpret_cast<float*>(buffer);
  StretchScratch scratch;
  alignas(64) float stretch[kStretch];
  const int64_t step = kStretch / codec.unit() * codec.unit();
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / x.cols, col = (first + done) % x.cols;
    const int64_t begin = col / codec.unit() * codec.unit();
    const int64_t end = std::min({col + count - done, x.cols, begin + step});
    const float* from = codec.read({row, begin, end - begin}, stretch, scratch);
    std::copy_n(from + (col - begin), end - col, values + done);
    done += end - col;
  }
  return {values, 1, count, count};
}

// Σ of subtree(first, count, buffer) over the subtrees of kTreeItem elements, folded in pairs by
// index: the tree over all chunks, because a subtree is a power of two of chunks.
template <class Subtree>
double tree_of(Workspace& workspace, int64_t size, const Subtree& subtree) {
  const int64_t items = (size + kTreeItem - 1) / kTreeItem;
  if (items == 0) return 0;
  double* partial = reinterpret_cast<double*>(workspace.shared().data());
  NG_CHECK(static_cast<size_t>(items) * sizeof(double) <= kSharedScratchBytes, items);
  static_assert(kTreeItem * sizeof(float) <= kWorkerScratchBytes);
  parallel_for(workspace.threads(), items, [&](int64_t item, int worker) {
    const int64_t first = item * kTreeItem, count = std::min(kTreeItem, size - first);
    partial[item] = subtree(first, count, workspace.worker(worker).data());
  });
  for (int64_t apart = 1; apart < items; apart *= 2)
    for (int64_t i = 0; i + apart < items; i += 2 * apart) partial[i] += partial[i + apart];
  return partial[0];
}

// Of a tensor without scales: Σ of chunk(values).
template <class Chunk>
double tree_over(Workspace& workspace, const ConstView& x, const Chunk& chunk) {
  return tree_of(workspace, x.size(), [&](int64_t first, int64_t count, std::byte* buffer) {
    return chunk(chunk_of(x, first, count, buffer));
  });
}

// The same of a tensor in few bits.
template <class Chunk>
double tree_over_decoded(Workspace& workspace, std::string_view operation, const ConstView& x,
                         const Chunk& chunk) {
  const StoredCodec codec(operation, as_stored(x), {}, Purpose::gradient_wire);
  return tree_of(workspace, x.size(), [&](int64_t first, int64_t count, std::byte* buffer) {
    return chunk(decoded_chunk(x, codec, first, count, buffer));
  });
}

bool is_value(const ConstView& x) {
  return x.rows == 0 || (!x.has_scales() && (x.is(fp32_format()) || x.is(bf16_format())));
}

// Of other elements, code by code: those of less than a byte have none that are not finite.
double nonfinite_codes(const ConstView& chunk) {
  const ElementFormat& element = *chunk.element;
  if (element.specials == Specials::none) return 0;
  const ElementCodec codec(element);
  const auto size = static_cast<int64_t>(bytes_of(element, 1));
  int64_t found = 0;
  for (int64_t i = 0; i < chunk.cols; ++i) {
    uint32_t code = 0;  // little endian, as everything here
    std::memcpy(&code, chunk.data + i * size, static_cast<size_t>(size));
    found += std::isfinite(codec.decode(code)) ? 0 : 1;
  }
  return static_cast<double>(found);
}

}  // namespace

ColumnSumBlocks column_sum_blocks(int64_t rows, int64_t cols, int sums, size_t bytes) {
  const int64_t pitch = (cols + 15) / 16 * 16;
  const int64_t room = static_cast<int64_t>(bytes / sizeof(float)) / (pitch * sums);
  NG_CHECK(room >= 1, cols, bytes);
  const int64_t most = std::min(kMaxBlocks, room);
  const int64_t rows_per_block = std::max(kMinBlockRows, (rows + most - 1) / most);
  return {rows_per_block, (rows + rows_per_block - 1) / rows_per_block, pitch};
}

void fold_column_sums(Threads threads, float* sum, float* partial, const ColumnSumBlocks& cut,
                      int64_t cols) {
  parallel_for(threads, (cols + kFoldColumns - 1) / kFoldColumns, [&](int64_t item, int) {
    const int64_t first = item * kFoldColumns;
    HWY_DYNAMIC_DISPATCH(FoldColumns)
    (sum, partial, cut, first, std::min(kFoldColumns, cols - first));
  });
}

void perform(Workspace& workspace, const AddColumnSums& op) {
  const ConstView& x = op.x;
  require_fp32(op.kName, {op.sum});
  require_values(op.kName, {x});
  if (x.rows == 0) return;
  NG_CHECK(op.sum.cols == x.cols, op.sum.cols, x.cols);
  float* sum = op.sum.as<float>().data;
  for (int64_t first = 0; first < x.cols; first += kSliceColumns) {
    const ConstView slice = x.columns(first, std::min(kSliceColumns, x.cols - first));
    const ColumnSumBlocks cut = column_sum_blocks(x.rows, slice.cols, 1, kSharedScratchBytes);
    float* partial = reinterpret_cast<float*>(workspace.shared().data());
    parallel_for(workspace.threads(), cut.blocks, [&](int64_t b, int) {
      const int64_t row = b * cut.rows_per_block;
      const ConstView rows = slice.slice(row, std::min(cut.rows_per_block, slice.rows - row));
      HWY_DYNAMIC_DISPATCH(ColumnSumsBlock)(partial + b * cut.pitch, rows);
    });
    fold_column_sums(workspace.threads(), sum + first, partial, cut, slice.cols);
  }
}

void perform(Workspace& workspace, const AddSum& op) {
  require_values(op.kName, {op.x});
  *op.sum += tree_over(workspace, op.x, HWY_DYNAMIC_DISPATCH(SumChunk));
}

void perform(Workspace& workspace, const AddSumOfSquares& op) {
  const auto chunk = HWY_DYNAMIC_DISPATCH(SumOfSquaresChunk);
  *op.sum += is_value(op.x) ? tree_over(workspace, op.x, chunk)
                            : tree_over_decoded(workspace, op.kName, op.x, chunk);
}

void perform(Workspace& workspace, const AddNonfinite& op) {
  const auto chunk = HWY_DYNAMIC_DISPATCH(NonfiniteChunk);
  const double found = is_value(op.x)      ? tree_over(workspace, op.x, chunk)
                       : op.x.has_scales() ? tree_over_decoded(workspace, op.kName, op.x, chunk)
                                           : tree_over(workspace, op.x, nonfinite_codes);
  *op.count += static_cast<uint64_t>(found);
}

}  // namespace ng::cpu
#endif
