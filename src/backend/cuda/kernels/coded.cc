#include "backend/cuda/kernels/coded.h"

#include <algorithm>

#include "format/dynamic_map.h"
#include "format/expansion.h"

namespace ng::cuda {
namespace {

/// Blocks of one row each, whose codes take a byte.
struct CodedBlocks {
  CodeRows codes;
  int64_t cols, width, across;
  float *scale, *power, *center;
  int64_t first_row;

  struct Block {
    int64_t row, col, end, scale;
  };
  [[nodiscard]] __device__ Block at(int64_t i) const {
    const int64_t row = first_row + i / across, col = i % across * width;
    return {row, col, col + width < cols ? col + width : cols, row * across + i % across};
  }
};

/// The largest magnitude of a block, and the least that is not 0; NaN aside. In every lane.
struct Magnitudes {
  float most = 0, least = 0;  ///< 0: all are
};
__device__ inline Magnitudes magnitudes_of(const RowValues& x, const CodedBlocks::Block& block,
                                           int lane) {
  uint32_t most = 0, least = 0;  // the complement of the least one's bits
  for (int64_t col = block.col + lane; col < block.end; col += kWarp) {
    const uint32_t bits = float_bits(x(block.row, col)) & 0x7FFFFFFFu;
    if (bits == 0 || bits > kFloatInf) continue;
    most = bits > most ? bits : most;
    least = ~bits > least ? ~bits : least;
  }
  most = largest_bits_of_warp(most);
  least = largest_bits_of_warp(least);
  return {float_of_bits(most), least == 0 ? 0.0f : float_of_bits(~least)};
}

// ---------------------------------------------------------------- by a map

constexpr int kMapThreads = 256;  ///< an entry of the table each
constexpr int kMapWarps = kMapThreads / kWarp;
constexpr int kMapTurns = 4;  ///< blocks of a warp, which the table is made for

struct ReadMapped {
  CodedBlocks from;
  bool is_positive;
  float* to;
  const StepControl* control;

  [[nodiscard]] __device__ float entry(uint32_t i) const { return dynamic_value(is_positive, i); }
  template <class Table>
  __device__ void operator()(const Table& values, int64_t i, int lane) const {
    const CodedBlocks::Block block = from.at(i);
    const float scale = from.scale[block.scale];
    for (int64_t col = block.col + lane; col < block.end; col += kWarp)
      to[(block.row - from.first_row) * from.cols + col] =
          values[from.codes(block.row, col)] * scale;
  }
};

struct StoreMapped {
  CodedBlocks y;
  bool is_positive;
  RowValues x;
  const StepControl* control;

  [[nodiscard]] __device__ float entry(uint32_t i) const {
    return i < 255 ? dynamic_middle(is_positive, i) : 0.0f;
  }
  /// How many of the 255 middles are below x.
  template <class Table>
  [[nodiscard]] __device__ static uint32_t code_of(const Table& middles, float x) {
    uint32_t below = 0;
    for (uint32_t step = 128; step > 0; step /= 2)
      below += middles[below + step - 1] < x ? step : 0;
    return below;
  }
  template <class Table>
  __device__ void operator()(const Table& middles, int64_t i, int lane) const {
    const CodedBlocks::Block block = y.at(i);
    const float amax = magnitudes_of(x, block, lane).most, decode = amax == 0 ? 1.0f : amax;
    if (lane == 0) y.scale[block.scale] = decode;
    for (int64_t col = block.col + lane; col < block.end; col += kWarp) {
      const float argument = dynamic_argument(x(block.row, col), 1.0f / decode);
      y.codes.set(block.row, col, code_of(middles, argument));
    }
  }
};

/// job(table, block, lane) by a warp for each block; table[i] is job.entry(i). Of a
/// multiprocessor's two blocks at least: see kRowBlocks.
template <class Job>
__global__ void __launch_bounds__(kMapThreads, 2) by_map(Job job, int64_t blocks) {
  NG_SHARED(float, table, kMapThreads);
  if (skips(job.control)) return;
  table[threadIdx.x] = job.entry(threadIdx.x);
  __syncthreads();
  const int64_t first =
      (int64_t{blockIdx.x} * kMapWarps + static_cast<int>(threadIdx.x) / kWarp) * kMapTurns;
  for (int64_t i = first; i < first + kMapTurns && i < blocks; ++i)
    job(table, i, static_cast<int>(threadIdx.x) % kWarp);
}

template <class Job>
void for_each_mapped(Stream stream, int64_t blocks, const Job& job) {
  launch<by_map<Job>>(stream,
                      {.grid = {blocks_of(blocks, kMapWarps * kMapTurns)}, .block = {kMapThreads}},
                      job, blocks);
}

// ---------------------------------------------------------------- by a power

constexpr int kExponents = kMostExponent - kLeastExponent + 1;
constexpr int kFactors = kSixteenths + kExponents;
constexpr int kLimits = kExpandedCodes + 1;

/// The factors of a block's numbers, made by a warp.
template <class Factors>
__device__ void put_factors(Factors& factors, int at, const Expansion& expansion, int lane) {
  const ExpansionFactors of(expansion);
  if (lane < kSixteenths) factors[at + lane] = of.of_sixteenths(lane);
  if (lane < kExponents) {
    const int exponent = lane + kLeastExponent;
    const double step = of.step(exponent > 0);
    double product = 1;
    for (int i = 0; i < (exponent < 0 ? -exponent : exponent); ++i) product *= step;
    factors[at + kSixteenths + lane] = product;
  }
  __syncwarp();
}
template <class Factors>
__device__ double power_of(const Factors& factors, int at, float number) {
  const SixteenthsOfPower of = sixteenths_of(number);
  const double sixteenths = factors[at + of.sixteenths];
  return sixteenths * factors[at + kSixteenths + of.exponent - kLeastExponent];
}

template <class Factors>
__device__ float value_of(const Factors& factors, int at, uint32_t code) {
  const uint32_t magnitude = code & 0x7Fu;
  float a = 0;
  if (magnitude == kExpandedCodes)
    a = float_of_bits(0x7FC00000u);
  else if (magnitude > 0)
    a = static_cast<float>(power_of(factors, at, e4m3_number(magnitude)));
  return (code & 0x80u) != 0 ? -a : a;
}

struct ReadExpanded {
  CodedBlocks from;
  float* to;
  const StepControl* control;
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    read_expanded(ReadExpanded job, int64_t blocks) {
  NG_SHARED(double, factors, kRowWarps* kFactors);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t i = int64_t{blockIdx.x} * kRowWarps + warp;
  if (i >= blocks || skips(job.control)) return;
  const CodedBlocks& from = job.from;
  const CodedBlocks::Block block = from.at(i);
  put_factors(factors, warp * kFactors,
              {from.scale[block.scale], from.power[block.scale], from.center[block.scale]}, lane);
  for (int64_t col = block.col + lane; col < block.end; col += kWarp)
    job.to[(block.row - from.first_row) * from.cols + col] =
        value_of(factors, warp * kFactors, from.codes(block.row, col));
}

struct StoreExpanded {
  CodedBlocks y;
  RowValues x;
  const StepControl* control;
};

__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    store_expanded(StoreExpanded job, int64_t blocks) {
  NG_SHARED(double, factors, kRowWarps* kFactors);
  NG_SHARED(int32_t, limits, kRowWarps * kLimits);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t i = int64_t{blockIdx.x} * kRowWarps + warp;
  if (i >= blocks || skips(job.control)) return;
  const CodedBlocks& y = job.y;
  const CodedBlocks::Block block = y.at(i);
  const Magnitudes of = magnitudes_of(job.x, block, lane);
  const Expansion expansion = expansion_of(of.most, of.least);
  if (lane == 0) {
    y.scale[block.scale] = expansion.scale;
    y.power[block.scale] = expansion.power;
    y.center[block.scale] = expansion.center;
  }
  put_factors(factors, warp * kFactors, expansion, lane);
  for (int code = lane; code < kLimits; code += kWarp)
    limits[warp * kLimits + code] =
        code + 1 < kExpandedCodes
            ? bits_not_above(
                  power_of(factors, warp * kFactors, e4m3_halfway(static_cast<uint32_t>(code))))
            : static_cast<int32_t>(kFloatInf);
  __syncwarp();
  for (int64_t col = block.col + lane; col < block.end; col += kWarp) {
    const auto limit = [&](uint32_t j) -> int32_t { return limits[warp * kLimits + j]; };
    y.codes.set(block.row, col, code_between(limit, job.x(block.row, col)));
  }
}

// ---------------------------------------------------------------- in two parts

/// hi + lo, hi = x rounded, lo = what that lost, rounded: elements of whole bytes.
struct Parts {
  CodeRows high, low;
  ElementCast cast;
};

struct ReadParts {
  Parts from;
  int64_t first_row, cols;
  float* to;
  const StepControl* control;
  __device__ void operator()(int64_t i, int64_t col) const {
    if (skips(control)) return;
    const int64_t row = first_row + i;
    to[i * cols + col] = decode_element(from.cast, from.high(row, col)) +
                         decode_element(from.cast, from.low(row, col));
  }
};

struct StoreParts {
  Parts y;
  int64_t first_row;
  RowValues x;
  const StepControl* control;
  __device__ void operator()(int64_t i, int64_t col) const {
    if (skips(control)) return;
    const int64_t row = first_row + i;
    const float value = x(row, col);
    const uint32_t high = encode_element(y.cast, value, {});
    y.high.set(row, col, high);
    const float lost = value - decode_element(y.cast, high);
    y.low.set(row, col, encode_element(y.cast, lost, {}));
  }
};

Parts parts_of(const ConstView& x, Overflow overflow) {
  NG_CHECK(x.element->bits % 8 == 0, x.element->name);
  Operand cast;
  cast.element = x.element;
  cast.overflow = overflow;
  const auto rows = [&](const std::byte* data) {
    return CodeRows{reinterpret_cast<uint8_t*>(const_cast<std::byte*>(data)), x.stride,
                    x.element->bits};
  };
  return {rows(x.data), rows(x.low), element_cast(cast, {})};
}

CodedBlocks blocks_of_rows(const ConstView& x, int64_t first_row) {
  const ConstScales& scales = x.scales;
  NG_CHECK(x.element->bits == 8 && scales.block.rows == 1, x.element->name);
  const int64_t width = scales.block.cols;
  const auto floats = [](const auto* data) {
    return const_cast<float*>(reinterpret_cast<const float*>(data));
  };
  return {{reinterpret_cast<uint8_t*>(const_cast<std::byte*>(x.data)), x.stride, 8},
          x.cols,
          width,
          (x.cols + width - 1) / width,
          floats(scales.data),
          floats(scales.power),
          floats(scales.center),
          first_row};
}

bool is_positive(const ConstView& x) { return x.scales.coding == Coding::positive_dynamic; }

}  // namespace

bool is_coded(const ConstView& x) {
  return x.low != nullptr || x.scales.coding != Coding::elements;
}

int64_t rows_in(const Scratch& scratch, int64_t cols, int64_t rows) {
  const auto room = static_cast<int64_t>(scratch.bytes / sizeof(float));
  return std::min(rows, std::max<int64_t>(room / cols, 1));
}

void read_coded(Stream stream, const ConstView& x, const RowRange& rows, float* to,
                const StepControl* control) {
  if (x.low != nullptr)
    return for_each_place(
        stream, rows.count, x.cols,
        ReadParts{parts_of(x, Overflow::saturate), rows.first, x.cols, to, control});
  const CodedBlocks from = blocks_of_rows(x, rows.first);
  const int64_t blocks = rows.count * from.across;
  if (x.scales.coding != Coding::expanded)
    return for_each_mapped(stream, blocks, ReadMapped{from, is_positive(x), to, control});
  launch<read_expanded>(stream, {.grid = {blocks_of(blocks, kRowWarps)}, .block = {kRowThreads}},
                        ReadExpanded{from, to, control}, blocks);
}

void store_coded(Stream stream, const BlockStore& store) {
  const ConstView y = store.y.view;
  const bool has_strip = store.strip != nullptr;
  const RowRange rows =
      has_strip ? RowRange{store.strip_row, store.strip_rows} : RowRange{0, y.rows};
  const RowValues x{store.source, store.strip, store.strip_row, y.cols};
  if (y.low != nullptr)
    return for_each_place(
        stream, rows.count, y.cols,
        StoreParts{parts_of(y, store.y.cast.overflow), rows.first, x, store.control});
  const CodedBlocks to = blocks_of_rows(y, rows.first);
  const int64_t blocks = rows.count * to.across;
  if (y.scales.coding != Coding::expanded)
    return for_each_mapped(stream, blocks, StoreMapped{to, is_positive(y), x, store.control});
  launch<store_expanded>(stream, {.grid = {blocks_of(blocks, kRowWarps)}, .block = {kRowThreads}},
                         StoreExpanded{to, x, store.control}, blocks);
}

}  // namespace ng::cuda
