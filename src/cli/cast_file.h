// Every float tensor of a file as narrow numbers: codes, scales and the values they stand for.
#pragma once

#include <cstdint>
#include <string>

#include "format/operand.h"

namespace ng::cli {

struct CastSettings {
  /// An element without scale is rounded by the format table, anything else as a GEMM operand.
  Operand cast;
  int64_t axis = -1;  ///< along which blocks lie; negative: counted from the last
  uint64_t seed = 1;
  std::string tensors = "*";  ///< glob over names
};

/// Reads `in`, writes `out`: for each float tensor X that matches
///   X.codes         codes, one per U8 or U16, shape of X
///   X.scale         decode multipliers: E8M0 or E4M3 codes in U8, others F32; the axis of X is
///                   replaced by its blocks, rows by blocks of rows; (1) for the whole tensor
///   X.tensor_scale  F32 (1), second level of NVFP4
///   X.values        F32, shape of X
/// Draws of stochastic rounding: tensor = X's place in the file, purpose 2, step 0. Returns
/// how many tensors were cast. Throws Error where none matches.
size_t cast_file(const std::string& in, const std::string& out, const CastSettings& settings);

}  // namespace ng::cli
