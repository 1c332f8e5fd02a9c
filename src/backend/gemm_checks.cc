#include "backend/gemm_checks.h"

#include "base/error.h"
#include "format/hadamard.h"

namespace ng {

void check_turn_back(const TurnBack& op) {
  const int g = op.hadamard.size;
  NG_CHECK(is_hadamard_size(g) && op.x.cols % g == 0, g, op.x.cols);
  NG_CHECK(op.y.rows == op.x.rows && op.y.cols <= op.x.cols, op.y.rows, op.y.cols, op.x.rows);
}

void check_rounding_backward(const RoundingBackward& op) {
  const OperandSpec& spec = op.spec;
  NG_CHECK(spec.contract == Contract::cols && op.context.stats == nullptr);
  NG_CHECK(op.x.rows == spec.rows && op.x.cols <= spec.k_padded(), op.x.rows, op.x.cols);
  NG_CHECK(op.y.rows == op.x.rows && op.y.cols == op.x.cols, op.y.rows, op.y.cols);
}

}  // namespace ng
