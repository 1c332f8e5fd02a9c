// y (M, N) = alpha · A (M, K) · B (N, K)ᵀ + bias, by the accumulation rules of ref/gemm.h and to
// its bits: one FP32 chain for each value, k ascending, or sums of integers, of blocks or as matrix
// tiles have them. A block of threads takes a tile of 64 x 64 values, a thread 4 x 4 of them.
#include <algorithm>
#include <cmath>

#include "backend/cuda/kernels/gemm_job.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/unit_gemm.h"
#include "base/flush.h"
#include "format/hadamard.h"

namespace ng::cuda {
namespace {

constexpr int kGemmThreads = 256;
constexpr int kSide = 16;  ///< threads along M and N
constexpr int kEach = 4;   ///< values of a thread along M and N, kSide apart
constexpr int kGemmTile = kSide * kEach;
constexpr int kDepth = kMxBlock;   ///< along K at a time, as many as SumOrder::tile32 sums
constexpr int kLine = kDepth + 1;  ///< rows apart by one more: columns without conflicts

constexpr int64_t kMxfp4Group = 128;
constexpr int64_t kIntegerChunk = 131072;  ///< K up to which int8 products sum exactly in int32

/// How products become a value. S_b: the FP32 chain of a block along K. [ref/gemm.h]
enum class SumRule : uint8_t {
  chain,     ///< acc = fma(a, b, acc); one blocked operand is decoded first
  integers,  ///< exact sums of chunks of K, converted once each
  groups,    ///< both MXFP4: S_b·2^(ea + eb) in groups of 128 along K in FP64
  narrow,    ///< both blocked: acc = fl32(acc + fl32(fl32(S_b·fl32(ma·mb))·2^(ea + eb)))
  fp32,      ///< the same with scales of FP32: acc = fma(S_b, fl32(sa·sb), acc)
  tile32,    ///< SumOrder::tile32
};
/// Elements are multiplied with the scales of their blocks before they are summed.
constexpr bool decodes_first(SumRule rule) {
  return rule == SumRule::chain || rule == SumRule::tile32;
}

/// Operands have no scales of blocks: a sum may begin with y.
constexpr bool can_carry(SumRule rule) { return decodes_first(rule) || rule == SumRule::integers; }

/// The scale of a block as m · 2^e; 0 outside.
struct SplitScale {
  float m = 0;
  int e = 0;
};
__device__ inline SplitScale split_scale(const CardOperand& operand, int64_t row, int64_t k) {
  if (row >= operand.rows) return {};
  if (operand.scales.kind != ScaleKind::e8m0) return {operand.folded_scale(row, k), 0};
  const uint32_t code = operand.scales.data[operand.scales.index(row, k)];
  return {code == kE8m0NanCode ? e8m0_value(code) : 1.0f, static_cast<int>(code) - 127};
}

/// s·m·2^e of a block in FP64, to be rounded once more.
__device__ inline double times_scales(float s, const SplitScale& a, const SplitScale& b) {
  const auto exponent = static_cast<uint64_t>(a.e + b.e + 1023);
  return s * (a.m * b.m) * __builtin_bit_cast(double, exponent << 52);
}

template <SumRule kRule>
__device__ float gemm_element(const CardOperand& operand, int64_t row, int64_t k) {
  float element = operand.element_at(row, k);
  const bool is_inside = row < operand.rows && k < operand.k_padded;
  if (decodes_first(kRule) && operand.is_blocked() && is_inside)
    element *= operand.folded_scale(row, k);
  return kRule == SumRule::tile32 ? flushed(element) : element;
}

/// The sums of a thread: what is finished, what is not, and the block at hand.
template <SumRule kRule>
struct Sums {
  float acc[kEach][kEach] = {};
  double group[kEach][kEach] = {};
  int32_t whole[kEach][kEach] = {};
  float part[kEach][kEach] = {};
  float even[kEach][kEach] = {}, odd[kEach][kEach] = {};  ///< of a tile

  /// Of the values `k` along K.
  __device__ void add(const float (&x)[kEach], const float (&z)[kEach], int k) {
    if constexpr (kRule == SumRule::tile32)
      k % 2 == 0 ? add_to(even, x, z) : add_to(odd, x, z);
    else
      add_to(kRule == SumRule::chain ? acc : part, x, z);
  }
  /// Products of zeros that fill a tile are left out: they change signs of zeros alone, and at the
  /// end -0 becomes +0.
  __device__ void end_tile() {
    NG_UNROLL
    for (int i = 0; i < kEach; ++i) NG_UNROLL
    for (int j = 0; j < kEach; ++j) {
      acc[i][j] = flushed(flushed(acc[i][j]) + flushed(even[i][j] + odd[i][j]));
      even[i][j] = odd[i][j] = 0;
    }
  }
  [[nodiscard]] __device__ float value(int i, int j) const {
    return kRule == SumRule::tile32 ? acc[i][j] + 0.0f : acc[i][j];
  }

  /// Of values from (row, col) on, which lie kSide apart, behind the block of `k`, which ends at
  /// `end`.
  __device__ void end_block(const GemmJob& g, int64_t row, int64_t col, int64_t k, int64_t end) {
    const bool is_last = end == g.a.k_padded;
    SplitScale b[kEach];
    NG_UNROLL
    for (int j = 0; j < kEach; ++j)
      if constexpr (kRule != SumRule::integers) b[j] = split_scale(g.b, col + j * kSide, k);
    NG_UNROLL
    for (int i = 0; i < kEach; ++i) {
      SplitScale a;
      if constexpr (kRule != SumRule::integers) a = split_scale(g.a, row + i * kSide, k);
      NG_UNROLL
      for (int j = 0; j < kEach; ++j) {
        const float s = part[i][j];
        part[i][j] = 0;
        if constexpr (kRule == SumRule::fp32) {
          acc[i][j] = std::fma(s, full(a) * full(b[j]), acc[i][j]);
        } else if constexpr (kRule == SumRule::narrow) {
          acc[i][j] += static_cast<float>(times_scales(s, a, b[j]));
        } else if constexpr (kRule == SumRule::groups) {
          group[i][j] += times_scales(s, a, b[j]);
          if (end % kMxfp4Group != 0 && !is_last) continue;
          acc[i][j] += static_cast<float>(group[i][j]);
          group[i][j] = 0;
        } else {
          whole[i][j] += static_cast<int32_t>(s);
          if (end % kIntegerChunk != 0 && !is_last) continue;
          acc[i][j] += static_cast<float>(whole[i][j]);
          whole[i][j] = 0;
        }
      }
    }
  }

 private:
  static __device__ void add_to(float (&sums)[kEach][kEach], const float (&x)[kEach],
                                const float (&z)[kEach]) {
    NG_UNROLL
    for (int i = 0; i < kEach; ++i) NG_UNROLL
    for (int j = 0; j < kEach; ++j)
      sums[i][j] = kRule == SumRule::tile32 ? flushed_fma(x[i], z[j], sums[i][j])
                                            : std::fma(x[i], z[j], sums[i][j]);
  }
  /// One of a power of two too.
  [[nodiscard]] static __device__ float full(const SplitScale& s) { return s.m * pow2(s.e); }
};

/// Calls of (row, col, its place in shared memory) for each value of the tile at (row0, col0): by
/// one piece of code, where a thread's own sixteen would be sixteen, and neighbours in y by
/// neighbouring threads.
template <typename Of>
__device__ void for_each_value(int64_t row0, int64_t col0, Of of) {
  NG_ROLLED
  for (int i = static_cast<int>(threadIdx.x); i < kGemmTile * kGemmTile; i += kGemmThreads)
    of(row0 + i / kGemmTile, col0 + i % kGemmTile, i);
}
__device__ inline bool is_within(const Target& y, int64_t row, int64_t col) {
  return row < y.rows && col < y.cols;
}
/// The place of value (i, j) of this thread there.
__device__ inline int place_of(int i, int j) {
  const int thread = static_cast<int>(threadIdx.x);
  return (thread / kSide + i * kSide) * kGemmTile + thread % kSide + j * kSide;
}

/// What a sum that goes on begins with, of the tile at (row0, col0), through `tile`.
template <typename Tile>
__device__ void take_carried(const GemmJob& g, int64_t row0, int64_t col0, Tile& tile,
                             float (&acc)[kEach][kEach]) {
  for_each_value(row0, col0, [&](int64_t row, int64_t col, int place) {
    tile[place] = is_within(g.y, row, col) ? g.y(row, col) : 0.0f;
  });
  __syncthreads();
  NG_UNROLL
  for (int i = 0; i < kEach; ++i) NG_UNROLL
  for (int j = 0; j < kEach; ++j) acc[i][j] = tile[place_of(i, j)];
  __syncthreads();
}

/// Whether a row of A or B of the tile at (row0, col0) was left out; all threads of the block.
__device__ inline bool has_left_out(const LeftOut& rows, int64_t row0, int64_t col0, int64_t down,
                                    int64_t across) {
  NG_SHARED(uint32_t, found, 1);
  const int thread = static_cast<int>(threadIdx.x), i = thread % kGemmTile;
  if (thread == 0) found[0] = 0;
  __syncthreads();
  const bool is_of_a = thread < kGemmTile;
  const int64_t at = (is_of_a ? row0 : col0) + i;
  if (thread < 2 * kGemmTile && at < (is_of_a ? down : across)) {
    const uint32_t* of = is_of_a ? rows.a : rows.b;
    if (of != nullptr && of[at] != 0) atomicOr(&found[0], 1u);
  }
  __syncthreads();
  return found[0] != 0;
}

// With more than two blocks of a multiprocessor in view ptxas puts registers into memory.
template <SumRule kRule, bool kLeftOut>
__global__ void __launch_bounds__(kGemmThreads, 2) multiply(GemmJob g, LeftOut left_out) {
  constexpr int kOfB = kGemmTile * kLine;
  static_assert(kGemmTile <= 2 * kLine);
  NG_SHARED(float, tile, 2 * kOfB);  // of A and of B; before and behind them of y
  const int thread = static_cast<int>(threadIdx.x);
  const int down = thread / kSide, across = thread % kSide;
  const int64_t row0 = int64_t{blockIdx.y} * kGemmTile, col0 = int64_t{blockIdx.x} * kGemmTile;
  constexpr bool kHasBlocks = !decodes_first(kRule);
  if constexpr (kLeftOut)
    if (!has_left_out(left_out, row0, col0, g.y.rows, g.y.cols)) return;
  Sums<kRule> sums;
  if constexpr (can_carry(kRule))
    if (g.into == Into::carry) take_carried(g, row0, col0, tile, sums.acc);
  for (int64_t k0 = 0; k0 < g.a.k_padded; k0 += kDepth) {
    for (int i = thread; i < kGemmTile * kDepth; i += kGemmThreads) {
      const int r = i / kDepth, k = i % kDepth;
      tile[r * kLine + k] = gemm_element<kRule>(g.a, row0 + r, k0 + k);
      tile[kOfB + r * kLine + k] = gemm_element<kRule>(g.b, col0 + r, k0 + k);
    }
    __syncthreads();
    const int depth = g.a.k_padded - k0 < kDepth ? static_cast<int>(g.a.k_padded - k0) : kDepth;
    int left = kHasBlocks ? static_cast<int>(g.block - k0 % g.block) : 0;
    for (int k = 0; k < depth; ++k) {
      float x[kEach], z[kEach];
      NG_UNROLL
      for (int i = 0; i < kEach; ++i) {
        x[i] = tile[(down + i * kSide) * kLine + k];
        z[i] = tile[kOfB + (across + i * kSide) * kLine + k];
      }
      sums.add(x, z, k);
      if (!kHasBlocks || (--left > 0 && k0 + k + 1 < g.a.k_padded)) continue;
      sums.end_block(g, row0 + down, col0 + across, k0 + k, k0 + k + 1);
      left = static_cast<int>(g.block);
    }
    if constexpr (kRule == SumRule::tile32) sums.end_tile();
    __syncthreads();
  }
  NG_UNROLL
  for (int i = 0; i < kEach; ++i) NG_UNROLL
  for (int j = 0; j < kEach; ++j) tile[place_of(i, j)] = sums.value(i, j);
  __syncthreads();
  for_each_value(row0, col0, [&](int64_t row, int64_t col, int place) {
    if (is_within(g.y, row, col) && (!kLeftOut || left_out.has(row, col)))
      put_product(g, row, col, tile[place]);
  });
}

template <SumRule kRule, bool kLeftOut = false>
void launch_gemm(Stream stream, const GemmJob& job, const LeftOut& left_out = {}) {
  const unsigned down = blocks_of(job.y.rows, kGemmTile), across = blocks_of(job.y.cols, kGemmTile);
  launch<multiply<kRule, kLeftOut>>(stream, {.grid = {across, down}, .block = {kGemmThreads}}, job,
                                    left_out);
}

bool is_mxfp4(const Operand& cast) {
  return cast.element->name == "float4_e2m1fn" && cast.scale == ScaleKind::e8m0 &&
         cast.block.kind == Block::Kind::tile && cast.block.cols == kMxBlock;
}
bool is_integer(const Operand& cast) {
  return cast.element->kind == ElementKind::integer && cast.element->mantissa_bits == 0;
}
bool has_wide_scale(const Operand& cast) {
  return cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2 || cast.has_folded_scales();
}

/// The row of the table in ref/gemm.h.
SumRule rule_of(const GemmJob& job, SumOrder order, const Operand& a, const Operand& b) {
  if (order == SumOrder::tile32) return SumRule::tile32;
  if (job.a.is_blocked() != job.b.is_blocked()) return SumRule::chain;
  if (!job.a.is_blocked())
    return is_integer(a) && is_integer(b) ? SumRule::integers : SumRule::chain;
  if (is_mxfp4(a) && is_mxfp4(b)) return SumRule::groups;
  return has_wide_scale(a) || has_wide_scale(b) ? SumRule::fp32 : SumRule::narrow;
}

int64_t common_block(const CardOperand& a, const CardOperand& b) {
  const int64_t x = a.scales.block_cols, z = b.scales.block_cols;
  NG_CHECK(std::max(x, z) % std::min(x, z) == 0, x, z);
  return std::min(x, z);
}

void multiply_by(Stream stream, SumRule rule, const GemmJob& job) {
  switch (rule) {
    case SumRule::chain:
      return launch_gemm<SumRule::chain>(stream, job);
    case SumRule::integers:
      return launch_gemm<SumRule::integers>(stream, job);
    case SumRule::groups:
      return launch_gemm<SumRule::groups>(stream, job);
    case SumRule::narrow:
      return launch_gemm<SumRule::narrow>(stream, job);
    case SumRule::fp32:
      return launch_gemm<SumRule::fp32>(stream, job);
    case SumRule::tile32:
      return launch_gemm<SumRule::tile32>(stream, job);
  }
}

/// How `op` is computed by these kernels.
struct KernelGemm {
  GemmJob job;
  SumRule rule = SumRule::chain;
};
KernelGemm kernel_gemm(const Gemm& op, GemmJob job) {
  const SumRule rule = rule_of(job, op.sum, op.a->spec.cast, op.b->spec.cast);
  if (rule == SumRule::integers) job.block = kDepth;
  if (!decodes_first(rule) && job.a.is_blocked()) job.block = common_block(job.a, job.b);
  return {job, rule};
}

GemmJob gemm_job(const Gemm& op) {
  const OperandSpec &a = op.a->spec, &b = op.b->spec;
  NG_CHECK(a.k == b.k && a.k_padded() == b.k_padded(), a.k_padded(), b.k_padded());
  NG_CHECK(a.hadamard == b.hadamard, a.hadamard.size, b.hadamard.size);
  NG_CHECK(op.y.rows == a.rows && op.y.cols == b.rows, op.y.rows, op.y.cols);
  const double prescales = static_cast<double>(a.cast.prescale) * b.cast.prescale;
  GemmJob job{.y = target_of(Gemm::kName, op.y),
              .a = card_operand(*op.a),
              .b = card_operand(*op.b),
              .bias = source_of(Gemm::kName, op.bias),
              .factor = static_cast<float>(hadamard_alpha(a.hadamard.size) / prescales),
              .into = op.into,
              .is_rounded = op.round == Compute::bf16};
  const bool is_plain = a.cast.is_unscaled() && b.cast.is_unscaled() && job.factor == 1.0f;
  NG_CHECK(op.into != Into::carry || is_plain, job.factor);
  NG_CHECK(op.sum == SumOrder::chain || (a.cast.factors_are_bf16() && b.cast.factors_are_bf16()));
  return job;
}

}  // namespace

void multiply_left_out(Stream stream, const Gemm& op, const GemmJob& job, const LeftOut& rows) {
  const KernelGemm gemm = kernel_gemm(op, job);
  if (gemm.rule == SumRule::groups)
    return launch_gemm<SumRule::groups, true>(stream, gemm.job, rows);
  NG_CHECK(gemm.rule == SumRule::narrow, op.a->spec.cast.element->name);
  launch_gemm<SumRule::narrow, true>(stream, gemm.job, rows);
}

void perform(Stream stream, const Gemm& op, const WithUnits& with) {
  const GemmJob job = gemm_job(op);
  if (op.y.size() == 0 || multiply_by_units(stream, op, job, with)) return;
  const KernelGemm gemm = kernel_gemm(op, job);
  multiply_by(stream, gemm.rule, gemm.job);
}

}  // namespace ng::cuda
