// The one GEMM driver of the cpu backend.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/gemm/isa/matrix.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// y (M, N) = A (M, K) · B (N, K)ᵀ + bias, bit for bit the definition of backend/ref/gemm.h, on
/// every instruction set and thread count. a.spec.rows == y.rows, b.spec.rows == y.cols, both with
/// the same k_padded and Hadamard transform; prepared by ng::cpu. Allocates nothing.
void gemm(Workspace& workspace, const Gemm& op);
/// The same with other kernels of matrix tiles than current_isa() has, for what tiles take.
void gemm(Workspace& workspace, const Gemm& op, const MatrixKernels* tiles);

}  // namespace ng::cpu
