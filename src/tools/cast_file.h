// Every float tensor of a file as narrow numbers: codes, scales and the values they stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/threads.h"
#include "format/operand.h"
#include "numbers/errors.h"
#include "numbers/narrow_matrix.h"

namespace ng {

struct CastSettings {
  std::string format;  ///< the name that it was asked for by
  /// Any cast of numbers/narrow_matrix.h.
  Operand cast;
  int64_t axis = -1;  ///< along which blocks lie; negative: counted from the last
  uint64_t seed = 1;
  std::string tensors = "*";  ///< glob over names
  bool packed = false;        ///< codes of 4 and 6 bits as bit strings
  Threads threads;
  /// Which casts, a whole tensor at a time, and takes operands of its GEMMs alone; null: the cpu
  /// backend's kernels, in pieces.
  Backend* backend = nullptr;
};

/// What became of a tensor.
struct CastResult {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  OperandStats counts;
  ErrorMetrics errors;
};

/// A file's results, and which of its tensors hold no floats.
struct CastReport {
  std::vector<CastResult> tensors;
  std::vector<std::string> skipped;
};

/// How far it has come, in bytes of float tensors read.
using CastProgress = std::function<void(uint64_t bytes)>;

/// Throws Error where `out` is `in`, or a file with anything in it that is not known as a cast.
void require_cast_or_nothing(const std::string& in, const std::string& out);

/// Reads `in`, writes `out` in pieces, so that memory does not grow with the tensors: for each
/// float tensor X that matches
///   X.codes         codes, one per U8 or U16, shape of X; packed: U8, each row of the last
///                   dimension a bit string of its codes, filled up to whole bytes
///   X.scale         decode multipliers: E8M0 or E4M3 codes in U8, others F32; the axis of X is
///                   replaced by its blocks, rows by blocks of rows; (1) for the whole tensor
///   X.zero          U8 beside each scale, affine integers: value = (code - zero) · scale
///   X.tensor_scale  F32 (1), second level of NVFP4
///   X.values        F32, shape of X
/// and how it was made in the file's metadata: format, element, scale, tensor_scale, scale_rule,
/// block, axis, rounding, overflow, seed, packed, and where packed "X.shape".
/// Draws of stochastic rounding: tensor = X's place in the file, purpose 2, step 0. Throws Error
/// where none matches, where X has no such axis, where require_cast_or_nothing() does, and on
/// failures of files; `out` then stays as it was.
CastReport cast_file(const std::string& in, const std::string& out, const CastSettings& settings,
                     const CastProgress& progress);

/// Bytes of the tensors that cast_file would read.
[[nodiscard]] uint64_t bytes_to_cast(const std::string& in, const CastSettings& settings);

}  // namespace ng
