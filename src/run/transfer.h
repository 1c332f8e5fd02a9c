// Values between host and backend memory, whatever a tensor is stored as.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend_memory.h"

namespace ng {

/// Part of a row as FP32 on the host: columns 0 ... out.size() - 1 of row `row`.
void download_row(const Backend& backend, const ConstView& view, int64_t row, std::span<float> out);

/// All values, row by row without gaps.
[[nodiscard]] std::vector<float> download(const Backend& backend, const ConstView& view);

/// FP32 values of the host into a row, rounded to nearest even. Elements of whole bytes, without
/// scales.
void upload_row(Backend& backend, const View& view, int64_t row, std::span<const float> values);

/// A matrix in backend memory for as long as this lives: FP32 values, or what a cast makes of some,
/// with the scales it asks for. Nothing is in it until something is put there.
class TemporaryTensor {
 public:
  TemporaryTensor(Backend& backend, int64_t rows, int64_t cols)
      : TemporaryTensor(backend, fp32_format(), rows, cols) {}
  TemporaryTensor(Backend& backend, const ElementFormat& element, int64_t rows, int64_t cols);
  /// Rows are as short as whole bytes allow.
  TemporaryTensor(Backend& backend, const Operand& cast, int64_t rows, int64_t cols);

  [[nodiscard]] View view() const { return view_; }
  [[nodiscard]] Stored stored() const { return {view_, cast_}; }
  /// All values, row by row without gaps, as upload_row and download have them.
  void upload(std::span<const float> values);
  [[nodiscard]] std::vector<float> download() const;

 private:
  Backend& backend_;
  Operand cast_;
  BackendMemory elements_;
  std::optional<BackendMemory> scales_, tensor_scale_;
  View view_;
};

}  // namespace ng
