// Values between host and backend memory, whatever a tensor is stored as.
#pragma once

#include <cstdint>
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

/// FP32 values in backend memory for as long as this lives.
class TemporaryTensor {
 public:
  TemporaryTensor(Backend& backend, int64_t rows, int64_t cols)
      : memory_(backend, static_cast<size_t>(rows * cols) * sizeof(float)),
        view_(memory_.floats(), rows, cols, cols) {}

  [[nodiscard]] View view() const { return view_; }

 private:
  BackendMemory memory_;
  View view_;
};

}  // namespace ng
