#include "train/device_batch.h"

#include <algorithm>

#include "base/error.h"

namespace ng {

DeviceBatch::DeviceBatch(Run& run, int64_t rows, int64_t batches)
    : rows_(rows),
      inputs_(static_cast<size_t>(rows * batches)),
      targets_(inputs_.size()),
      mask_(inputs_.size()),
      device_inputs_(run.persistent_values<int32_t>("inputs", inputs_.size())),
      device_targets_(run.persistent_values<int32_t>("targets", inputs_.size())),
      device_mask_(run.persistent_values<float>("mask", inputs_.size())) {}

BatchSpans DeviceBatch::host(int64_t batch) {
  const auto rows = static_cast<size_t>(rows_), first = rows * static_cast<size_t>(batch);
  NG_CHECK(batch >= 0 && first + rows <= inputs_.size(), batch);
  return {std::span(inputs_).subspan(first, rows), std::span(targets_).subspan(first, rows),
          std::span(mask_).subspan(first, rows)};
}

void DeviceBatch::upload(Run& run, int64_t first, int64_t count) const {
  const auto begin = static_cast<size_t>(first * rows_), size = static_cast<size_t>(count * rows_);
  run.upload(device_inputs_ + begin, std::span(inputs_).subspan(begin, size));
  run.upload(device_targets_ + begin, std::span(targets_).subspan(begin, size));
  run.upload(device_mask_ + begin, std::span(mask_).subspan(begin, size));
}

int64_t DeviceBatch::count_targets(int64_t first, int64_t count) const {
  const auto begin = mask_.begin() + first * rows_;
  return std::count(begin, begin + count * rows_, 1.0f);
}

TokenView DeviceBatch::inputs(int64_t batch) const {
  return {device_inputs_ + batch * rows_, static_cast<size_t>(rows_)};
}

TokenView DeviceBatch::targets(int64_t batch) const {
  return {device_targets_ + batch * rows_, static_cast<size_t>(rows_)};
}

ConstView DeviceBatch::mask(int64_t batch) const {
  return {device_mask_ + batch * rows_, 1, rows_, rows_};
}

}  // namespace ng
