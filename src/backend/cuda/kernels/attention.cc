// (Grouped-query) causal attention: by matrix units where they take it, and by FP32 arithmetic all
// else and what they leave. Of the latter forward and dq take a warp for each query of a head, dk
// and dv a warp for each key of a kv head: who owns a value adds to it alone, in one order. A warp
// looks at 32 keys (queries) at a time, one a lane, and then adds their vectors, each lane its own
// columns. [Dao et al. 2022, Algorithm 1 and appendix B.2]
#include <cmath>
#include <limits>

#include "backend/cuda/kernels/attention.h"
#include "backend/layer_checks.h"
#include "math/exp.h"
#include "math/log.h"

namespace ng::cuda {
namespace {

constexpr int kColsPerLane = 8;
constexpr int kMostHeadDim = kColsPerLane * kWarp;

/// The values of one head in one row.
struct HeadPart {
  const Source& x;
  int64_t row, first;
  __device__ float operator()(int c) const { return x(row, first + c); }
};

__device__ inline float dot_of(const HeadPart& a, const HeadPart& b, int n) {
  float sum = 0;
  for (int c = 0; c < n; ++c) sum = std::fma(a(c), b(c), sum);
  return sum;
}

__device__ inline HeadPart query_of(const Heads& heads, const Source& x, int64_t row,
                                    int64_t head) {
  return {x, row, heads.query_col(head)};
}
/// Of key 0 of the sequence of a query's row.
__device__ inline HeadPart key_of(const Heads& heads, const Source& x, int64_t row, int64_t head) {
  return {x, heads.keys_row(row), heads.kv_head(head) * heads.s.head_dim};
}

/// What of P or dS enters a product.
__device__ inline float factor_of(float x, bool is_rounded) {
  return is_rounded ? round_to_bf16(x) : x;
}

/// out and lse of a query of a head.
struct AttendRow {
  Heads heads;
  Target out, lse;
  Source q, k, v;
  AmaxPlace amax;

  __device__ void operator()(int64_t unit, int lane) const {
    NG_SHARED(float, weights, kRowThreads);  // of a warp's 32 keys
    const int mine = static_cast<int>(threadIdx.x) / kWarp * kWarp;
    const AttentionShape& s = heads.s;
    const int64_t row = unit / s.heads, head = unit % s.heads, i = row % s.length;
    const HeadPart query = query_of(heads, q, row, head);
    HeadPart key = key_of(heads, k, row, head);
    const int64_t keys_row = key.row, end = s.first + i + 1;
    float acc[kColsPerLane] = {};
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t j0 = heads.first_key(row, i); j0 < end; j0 += kWarp) {
      const int64_t j = j0 + lane;
      key.row = keys_row + j;
      const float score = j < end ? heads.scale * dot_of(query, key, s.head_dim) : largest;
      const float next = largest_value_of_warp(score > largest ? score : largest);
      const float rescale = math::exp(largest - next);
      const float p = j < end ? math::exp(score - next) : 0.0f;
      largest = next;
      sum = std::fma(sum, rescale, p);
      weights[mine + lane] = factor_of(p, heads.are_rounded);
      __syncwarp();
      const int count = end - j0 < kWarp ? static_cast<int>(end - j0) : kWarp;
      for (int c = 0; c < kColsPerLane; ++c) acc[c] *= rescale;
      for (int n = 0; n < count; ++n) {
        const float weight = weights[mine + n];
        for (int c = 0; c < kColsPerLane; ++c)
          if (c * kWarp + lane < s.head_dim)
            acc[c] = std::fma(weight, v(keys_row + j0 + n, key.first + c * kWarp + lane), acc[c]);
      }
      __syncwarp();
    }
    sum = sum_of_warp(sum);
    Largest largest_out;
    for (int c = 0; c < kColsPerLane; ++c)
      if (c * kWarp + lane < s.head_dim) {
        const float value = acc[c] / sum;
        out.put(row, query.first + c * kWarp + lane, value);
        largest_out.take(value);
      }
    amax.put(largest_out, lane);
    if (lane == 0) lse.put(row, head, largest + static_cast<float>(math::log(double{sum})));
  }
};

/// dout·out of each query and head, which all its slopes lack, once for all keys.
struct MeanOfSlopes {
  AttentionShape s;
  Source dout, out;
  float* means;
  __device__ void operator()(int64_t row, int64_t head) const {
    const int64_t first = head * s.head_dim;
    means[row * s.heads + head] = dot_of({dout, row, first}, {out, row, first}, s.head_dim);
  }
};

/// What the backward passes read.
struct AttentionInputs {
  Heads heads;
  Source dout, lse, q, k, v;
  const float* means;

  /// P and dS of a query in `row` and a key, of a head.
  struct Slope {
    float p = 0, ds = 0;
  };
  [[nodiscard]] __device__ Slope slope_of(int64_t row, int64_t head, const HeadPart& key) const {
    const int d = heads.s.head_dim;
    const HeadPart dy = query_of(heads, dout, row, head), value{v, key.row, key.first};
    const float score = heads.scale * dot_of(query_of(heads, q, row, head), key, d);
    const float p = math::exp(score - lse(row, head));
    const float mean = means[row * heads.s.heads + head];
    return {p, p * (dot_of(dy, value, d) - mean) * heads.scale};
  }
};

/// dq of a query of a head.
struct QueryGradientRow {
  AttentionInputs in;
  Target dq;

  __device__ void operator()(int64_t unit, int lane) const {
    NG_SHARED(float, slopes, kRowThreads);  // dS of a warp's 32 keys
    const int mine = static_cast<int>(threadIdx.x) / kWarp * kWarp;
    const AttentionShape& s = in.heads.s;
    const int64_t row = unit / s.heads, head = unit % s.heads, i = row % s.length;
    const HeadPart key = key_of(in.heads, in.k, row, head);
    const int64_t end = s.first + i + 1;
    float acc[kColsPerLane] = {};
    for (int64_t j0 = in.heads.first_key(row, i); j0 < end; j0 += kWarp) {
      const int64_t j = j0 + lane;
      const float slope =
          j < end ? in.slope_of(row, head, {in.k, key.row + j, key.first}).ds : 0.0f;
      slopes[mine + lane] = factor_of(slope, in.heads.are_rounded);
      __syncwarp();
      const int count = end - j0 < kWarp ? static_cast<int>(end - j0) : kWarp;
      for (int n = 0; n < count; ++n) {
        const float ds = slopes[mine + n];
        for (int c = 0; c < kColsPerLane; ++c)
          if (c * kWarp + lane < s.head_dim)
            acc[c] = std::fma(ds, in.k(key.row + j0 + n, key.first + c * kWarp + lane), acc[c]);
      }
      __syncwarp();
    }
    for (int c = 0; c < kColsPerLane; ++c)
      if (c * kWarp + lane < s.head_dim) dq.put(row, head * s.head_dim + c * kWarp + lane, acc[c]);
  }
};

/// dk, or dv, of a key of a kv head: heads of its group in order, queries in order. One at a time:
/// sums of both are more than registers hold on some cards.
template <bool kOfKeys>
struct KeyGradientRow {
  AttentionInputs in;
  Target sums;

  __device__ void operator()(int64_t unit, int lane) const {
    NG_SHARED(float, weights, kRowThreads);  // P or dS of a warp's 32 queries
    const int mine = static_cast<int>(threadIdx.x) / kWarp * kWarp;
    const AttentionShape& s = in.heads.s;
    const Source& from = kOfKeys ? in.q : in.dout;
    // Of 32 bits: divisions of 64 are calls, around which registers would go into memory.
    const auto at = static_cast<uint32_t>(unit), kv_heads = static_cast<uint32_t>(s.kv_heads),
               kv_length = static_cast<uint32_t>(s.kv_length);
    const int64_t kv_head = at % kv_heads, j = at / kv_heads % kv_length;
    const int64_t sequence = at / kv_heads / kv_length;
    const HeadPart key{in.k, sequence * s.kv_stride + j, kv_head * s.head_dim};
    const int64_t group = s.heads / s.kv_heads;
    const int64_t first = j > s.first ? j - s.first : 0;  // the first query that sees it
    float acc[kColsPerLane] = {};
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (int64_t i0 = first; i0 < s.length; i0 += kWarp) {
        const int64_t i = i0 + lane, row0 = sequence * s.length + i0;
        float weight = 0;
        if (i < s.length && in.heads.first_key(row0 + lane, i) <= j) {
          const AttentionInputs::Slope slope = in.slope_of(row0 + lane, head, key);
          weight = factor_of(kOfKeys ? slope.ds : slope.p, in.heads.are_rounded);
        }
        weights[mine + lane] = weight;
        __syncwarp();
        const int count = s.length - i0 < kWarp ? static_cast<int>(s.length - i0) : kWarp;
        for (int n = 0; n < count; ++n) {
          const float of_query = weights[mine + n];
          if (of_query == 0) continue;
          for (int c = 0; c < kColsPerLane; ++c)
            if (c * kWarp + lane < s.head_dim)
              acc[c] =
                  std::fma(of_query, from(row0 + n, head * s.head_dim + c * kWarp + lane), acc[c]);
        }
        __syncwarp();
      }
    for (int c = 0; c < kColsPerLane; ++c)
      if (c * kWarp + lane < s.head_dim) sums.put(key.row, key.first + c * kWarp + lane, acc[c]);
  }
};

/// Rows of those blocks alone that matrix units left, of which there is one number each.
template <class Row>
struct LeftRow {
  Row row;
  FlashBlocks blocks;
  const uint32_t* left;  ///< null: all

  __device__ void operator()(int64_t unit, int lane) const {
    const auto at = static_cast<uint32_t>(unit), heads = static_cast<uint32_t>(blocks.heads),
               length = static_cast<uint32_t>(blocks.length);
    const uint32_t i = at / heads % length, sequence = at / heads / length;
    if (left == nullptr || left[blocks.of(sequence, at % heads, i)] != 0) row(unit, lane);
  }
};
template <class Row>
void for_each_left(Stream stream, const FlashBlocks& blocks, const uint32_t* left, const Row& row) {
  for_each_row(stream, blocks.sequences * blocks.length * blocks.heads,
               LeftRow<Row>{row, blocks, left});
}

/// Of attention or its adjoint.
template <class Operation>
Heads heads_of(const Operation& op) {
  const AttentionShape& s = op.shape;
  check_attention(s, op.q, op.k, op.v, op.first_keys);
  if (s.head_dim > kMostHeadDim)
    throw Unsupported("cuda: " + std::string(op.kName) + " of heads above " +
                      std::to_string(kMostHeadDim));
  return {s, op.first_keys.empty() ? nullptr : op.first_keys.data(),
          static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim))),
          op.probabilities == Compute::bf16};
}

/// Whether matrix units take such tensors: of BF16, with heads of 8, 16 ... 128 values whose rows
/// begin at multiples of 16 bytes.
template <class... Views>
bool has_quads(const AttentionShape& s, const Views&... views) {
  constexpr int kOfQuad = 8, kMostCols = 128;
  const auto is_so = [](const ConstView& x) {
    return x.is(bf16_format()) && x.stride % kOfQuad == 0 &&
           reinterpret_cast<uintptr_t>(x.data) % sizeof(Quad) == 0;
  };
  return s.head_dim % kOfQuad == 0 && s.head_dim <= kMostCols && (is_so(views) && ...);
}

}  // namespace

void perform(Stream stream, const Attention& op, const WithUnits& with) {
  NG_CHECK(same_shape(op.out, op.q) && op.lse.rows == op.q.rows && op.lse.cols == op.shape.heads,
           op.out.rows, op.out.cols, op.lse.rows, op.lse.cols);
  constexpr std::string_view kName = Attention::kName;
  const Heads heads = heads_of(op);
  const FlashBlocks blocks = query_blocks(op.shape);
  const Target out = target_of(kName, op.out);
  const AmaxPlace amax = amax_place(stream, out, op.amax);
  uint32_t* left = nullptr;
  if (with.units != nullptr && has_quads(op.shape, op.q, op.k, op.v)) {
    left = with.scratch.take<uint32_t>(kName, blocks.count());
    flash_attention(stream, op, heads, amax, left);
  }
  const AttendRow row{heads,
                      out,
                      target_of(kName, op.lse),
                      source_of(kName, op.q, op.out),
                      source_of(kName, op.k, op.out),
                      source_of(kName, op.v, op.out),
                      amax};
  for_each_left(stream, blocks, left, row);
}

void perform(Stream stream, const AttentionBackward& op, const WithUnits& with) {
  NG_CHECK(same_shape(op.dq, op.q) && same_shape(op.dout, op.q) && same_shape(op.out, op.q) &&
               same_shape(op.dk, op.k) && same_shape(op.dv, op.v) && op.lse.rows == op.q.rows &&
               op.lse.cols == op.shape.heads,
           op.dq.rows, op.dq.cols, op.dk.rows, op.dk.cols, op.dout.rows, op.dout.cols, op.lse.rows,
           op.lse.cols);
  constexpr std::string_view kName = AttentionBackward::kName;
  const auto read = [&](const ConstView& x) { return source_of(kName, x, op.dq); };
  const AttentionShape& s = op.shape;
  const FlashBlocks queries = query_blocks(s), keys = key_blocks(s);
  const int64_t rows = op.q.rows * s.heads;
  auto* means = with.scratch.take<float>(kName, rows);
  const AttentionInputs in{heads_of(op), read(op.dout), source_of(kName, op.lse),
                           read(op.q),   read(op.k),    read(op.v),
                           means};
  for_each_place(stream, op.q.rows, s.heads, MeanOfSlopes{s, in.dout, read(op.out), means});
  uint32_t *left_queries = nullptr, *left_keys = nullptr;
  if (with.units != nullptr && has_quads(op.shape, op.q, op.k, op.v, op.dout)) {
    const Scratch behind = with.scratch.behind<float>(rows);
    left_queries = behind.take<uint32_t>(kName, queries.count() + keys.count());
    left_keys = left_queries + queries.count();
    flash_query_gradients(stream, op, in.heads, means, left_queries);
    flash_key_gradients(stream, op, in.heads, means, left_keys);
  }
  for_each_left(stream, queries, left_queries, QueryGradientRow{in, target_of(kName, op.dq)});
  for_each_left(stream, keys, left_keys, KeyGradientRow<true>{in, target_of(kName, op.dk)});
  for_each_left(stream, keys, left_keys, KeyGradientRow<false>{in, target_of(kName, op.dv)});
}

}  // namespace ng::cuda
