// y (M, N) = alpha · A (M, K) · B (N, K)ᵀ + bias, by the accumulation rules of ref/gemm.h and to
// its bits: one FP32 chain for each value, k ascending, or sums of blocks. A block of threads takes
// a tile of 64 x 64 values, a thread 4 x 4 of them.
#include <cmath>

#include "backend/cuda/kernels/operand.h"
#include "backend/cuda/kernels/perform.h"
#include "format/hadamard.h"

namespace ng::cuda {
namespace {

constexpr int kGemmThreads = 256;
constexpr int kSide = 16;  ///< threads along M and N
constexpr int kEach = 4;   ///< values of a thread along M and N, kSide apart
constexpr int kGemmTile = kSide * kEach;
constexpr int kDepth = kMxBlock;   ///< along K at a time
constexpr int kLine = kDepth + 1;  ///< rows apart by one more: columns without conflicts

/// How products become a value. [ref/gemm.h]
enum class SumRule : uint8_t {
  chain,   ///< acc = fma(a, b, acc); one blocked operand is decoded first
  groups,  ///< both MXFP4: groups of 128 along K in FP64
  blocks,  ///< both MX: acc = fl32(acc + fl32(S_b·2^(ea + eb)))
};

struct GemmJob {
  Target y;
  CardOperand a, b;
  Source bias;
  float factor = 1;
  Into into = Into::overwrite;
  bool is_rounded = false;  ///< to BF16, whatever y is stored as
};

/// S·2^e of a block, exact in FP64; NaN where a scale is NaN.
__device__ inline double times_scales(float s, uint32_t code_a, uint32_t code_b) {
  if (code_a == kE8m0NanCode || code_b == kE8m0NanCode) return float_of_bits(0x7FC00000u);
  const uint64_t exponent = code_a + code_b + 1023 - 254;
  return s * __builtin_bit_cast(double, exponent << 52);
}

__device__ inline float gemm_element(const CardOperand& operand, int64_t row, int64_t k,
                                     bool decodes) {
  const float element = operand.element_at(row, k);
  if (!decodes || !operand.is_blocked() || row >= operand.rows || k >= operand.k_padded)
    return element;
  return element * e8m0_value(operand.scale_code_at(row, k));
}

__device__ inline void put_product(const GemmJob& g, int64_t row, int64_t col, float acc) {
  float t = acc * (g.a.late_scale() * g.b.late_scale() * g.factor);
  if (g.bias.rows > 0) t += g.bias(0, col);
  if (g.into == Into::add) t = g.y(row, col) + t;
  g.y.put(row, col, g.is_rounded ? round_to_bf16(t) : t);
}

/// What a sum that goes on begins with, of the values that a thread has from (row0, col0) on.
__device__ inline void take_carried(const GemmJob& g, int64_t row0, int64_t col0,
                                    float (&acc)[kEach][kEach]) {
  if (g.into != Into::carry) return;
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + i * kSide, col = col0 + j * kSide;
      if (row < g.y.rows && col < g.y.cols) acc[i][j] = g.y(row, col);
    }
}

template <SumRule kRule>
__global__ void __launch_bounds__(kGemmThreads) multiply(GemmJob g) {
  NG_SHARED(float, a, kGemmTile* kLine);
  NG_SHARED(float, b, kGemmTile* kLine);
  NG_SHARED(uint32_t, scales, 2 * kGemmTile);  // of the rows of a, then of b
  const int thread = static_cast<int>(threadIdx.x);
  const int down = thread / kSide, across = thread % kSide;
  const int64_t row0 = int64_t{blockIdx.y} * kGemmTile, col0 = int64_t{blockIdx.x} * kGemmTile;
  float acc[kEach][kEach] = {};
  double group[kEach][kEach] = {};
  take_carried(g, row0 + down, col0 + across, acc);
  for (int64_t k0 = 0; k0 < g.a.k_padded; k0 += kDepth) {
    for (int i = thread; i < kGemmTile * kDepth; i += kGemmThreads) {
      const int r = i / kDepth, k = i % kDepth;
      a[r * kLine + k] = gemm_element(g.a, row0 + r, k0 + k, kRule == SumRule::chain);
      b[r * kLine + k] = gemm_element(g.b, col0 + r, k0 + k, kRule == SumRule::chain);
    }
    if (kRule != SumRule::chain && thread < 2 * kGemmTile) {
      const bool is_left = thread < kGemmTile;
      const CardOperand& operand = is_left ? g.a : g.b;
      const int64_t row = is_left ? row0 + thread : col0 + thread - kGemmTile;
      scales[thread] = row < operand.rows ? operand.scale_code_at(row, k0) : 0;
    }
    __syncthreads();
    float sum[kEach][kEach];
    for (int i = 0; i < kEach; ++i)
      for (int j = 0; j < kEach; ++j) sum[i][j] = kRule == SumRule::chain ? acc[i][j] : 0.0f;
    const int depth = g.a.k_padded - k0 < kDepth ? static_cast<int>(g.a.k_padded - k0) : kDepth;
    for (int k = 0; k < depth; ++k) {
      float x[kEach], z[kEach];
      for (int i = 0; i < kEach; ++i) {
        x[i] = a[(down + i * kSide) * kLine + k];
        z[i] = b[(across + i * kSide) * kLine + k];
      }
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) sum[i][j] = std::fma(x[i], z[j], sum[i][j]);
    }
    const bool ends_group = (k0 / kDepth) % 4 == 3 || k0 + kDepth >= g.a.k_padded;
    for (int i = 0; i < kEach; ++i)
      for (int j = 0; j < kEach; ++j) {
        if (kRule == SumRule::chain) {
          acc[i][j] = sum[i][j];
          continue;
        }
        const double part = times_scales(sum[i][j], scales[down + i * kSide],
                                         scales[kGemmTile + across + j * kSide]);
        group[i][j] += part;
        if (kRule == SumRule::groups && !ends_group) continue;
        acc[i][j] += static_cast<float>(group[i][j]);
        group[i][j] = 0;
      }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + down + i * kSide, col = col0 + across + j * kSide;
      if (row < g.y.rows && col < g.y.cols) put_product(g, row, col, acc[i][j]);
    }
}

template <SumRule kRule>
void launch_gemm(Stream stream, const GemmJob& job) {
  const unsigned down = blocks_of(job.y.rows, kGemmTile), across = blocks_of(job.y.cols, kGemmTile);
  launch<multiply<kRule>>(stream, {.grid = {across, down}, .block = {kGemmThreads}}, job);
}

bool is_mxfp4(const PackedOperand& packed) {
  return packed.spec.cast.element->name == "float4_e2m1fn" && !packed.spec.cast.is_unscaled();
}

}  // namespace

void perform(Stream stream, const Gemm& op) {
  if (op.sum != SumOrder::chain)
    throw Unsupported("cuda: gemm in the order " + std::string(name_of(op.sum)));
  const OperandSpec &a = op.a->spec, &b = op.b->spec;
  NG_CHECK(a.k_padded() == b.k_padded(), a.k_padded(), b.k_padded());
  NG_CHECK(a.hadamard == b.hadamard, a.hadamard.size, b.hadamard.size);
  NG_CHECK(op.y.rows == a.rows && op.y.cols == b.rows, op.y.rows, op.y.cols);
  const double prescales = static_cast<double>(a.cast.prescale) * b.cast.prescale;
  const GemmJob job{.y = target_of(Gemm::kName, op.y),
                    .a = card_operand(*op.a),
                    .b = card_operand(*op.b),
                    .bias = source_of(Gemm::kName, op.bias),
                    .factor = static_cast<float>(hadamard_alpha(a.hadamard.size) / prescales),
                    .into = op.into,
                    .is_rounded = op.round == Compute::bf16};
  NG_CHECK(op.into != Into::carry || (!job.a.stored && !job.b.stored && job.factor == 1.0f),
           job.factor);
  if (op.y.size() == 0) return;
  if (!job.a.is_blocked() || !job.b.is_blocked()) return launch_gemm<SumRule::chain>(stream, job);
  if (is_mxfp4(*op.a) && is_mxfp4(*op.b)) return launch_gemm<SumRule::groups>(stream, job);
  launch_gemm<SumRule::blocks>(stream, job);
}

}  // namespace ng::cuda
