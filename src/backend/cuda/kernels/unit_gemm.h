// GEMMs on a card's matrix units, by the routes of backend/cuda/route.h.
#pragma once

#include "backend/cuda/kernels/gemm_job.h"
#include "backend/cuda/kernels/perform.h"

namespace ng::cuda {

/// False: nothing was done, for there are no units, they have no route for such operands, or there
/// is no stream.
bool multiply_by_units(Stream stream, const Gemm& op, const GemmJob& job, const WithUnits& with);

/// By the kernels of gemm.cc: what rows touch that the units left out, of MX operands of 4 and 6
/// bits.
void multiply_left_out(Stream stream, const Gemm& op, const GemmJob& job, const LeftOut& rows);

}  // namespace ng::cuda
