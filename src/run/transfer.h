// Values between host and backend memory, whatever a tensor is stored as.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace ng {

/// Part of a row as FP32 on the host: columns 0 ... out.size() - 1 of row `row`. Elements of whole
/// bytes, without scales.
void download_row(const Backend& backend, const ConstView& view, int64_t row, std::span<float> out);

/// All values, row by row without gaps.
[[nodiscard]] std::vector<float> download(const Backend& backend, const ConstView& view);

/// FP32 values of the host into a row, rounded to nearest even.
void upload_row(Backend& backend, const View& view, int64_t row, std::span<const float> values);

}  // namespace ng
