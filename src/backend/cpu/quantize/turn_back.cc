// Products in the basis of a Hadamard transform, back in that of their columns.
#include <algorithm>
#include <array>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/quantize/put_product.h"
#include "backend/cpu/quantize/quantize.h"
#include "backend/cpu/types.h"
#include "backend/gemm_checks.h"
#include "format/hadamard.h"

namespace ng::cpu {
namespace {

constexpr int64_t kRun = 512;  // values at once: whole groups of every size

/// 1 or -1 for each value of a run; a sign changes no other bit.
std::array<float, kRun> sign_factors(const Hadamard& hadamard) {
  std::array<float, kRun> factors{};
  for (int64_t k = 0; k < kRun; ++k)
    factors[static_cast<size_t>(k)] =
        has_negative_sign(hadamard.signs.data(), static_cast<int>(k % hadamard.size)) ? -1.0f : 1;
  return factors;
}

}  // namespace

void turn_back(Workspace& workspace, const TurnBack& op) {
  require_fp32(op.kName, {op.x});
  require_values(op.kName, {op.y});
  check_turn_back(op);
  const int g = op.hadamard.size;
  const std::array<float, kRun> signs = sign_factors(op.hadamard);
  constexpr std::array<uint32_t, 4> kNone{};
  const HadamardRule back{.size = g, .signs = kNone.data(), .factor = hadamard_back_factor(g)};
  const auto x = op.x.as<float>();
  parallel_for(workspace.threads(), op.y.rows, [&](int64_t row, int) {
    alignas(64) std::array<float, kRun> run;
    for (int64_t k = 0; k < op.y.cols; k += kRun) {
      const int64_t cols = std::min(kRun, op.x.cols - k), kept = std::min(cols, op.y.cols - k);
      hadamard_rows({x.row(row) + k, op.x.stride}, {run.data(), 1, cols, kRun}, back);
      for (int64_t i = 0; i < kept; ++i)
        run[static_cast<size_t>(i)] *= signs[static_cast<size_t>(i)];
      put_product(run.data(), kept, op.into, op.round, op.y, row, k);
    }
  });
}

}  // namespace ng::cpu
