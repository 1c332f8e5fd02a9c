// Values between host and backend memory, whatever a tensor is stored as.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

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
      : backend_(backend), bytes_(static_cast<size_t>(rows * cols) * sizeof(float)) {
    view_ = {backend.allocate(bytes_), fp32_format(), rows, cols, cols};
  }
  ~TemporaryTensor() { backend_.release(view_.data, bytes_); }
  TemporaryTensor(const TemporaryTensor&) = delete;
  TemporaryTensor& operator=(const TemporaryTensor&) = delete;

  [[nodiscard]] View view() const { return view_; }

 private:
  Backend& backend_;
  size_t bytes_;
  View view_;
};

}  // namespace ng
