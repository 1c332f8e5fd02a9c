#include "data/device_batch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ng {

DeviceBatch::DeviceBatch(Run& run, int64_t rows, int64_t batches, bool with_documents)
    : rows_(rows),
      tokens_(static_cast<size_t>(rows * batches)),
      device_inputs_(run.persistent_values<int32_t>("inputs", tokens_)),
      device_targets_(run.persistent_values<int32_t>("targets", tokens_)),
      device_mask_(run.persistent_values<float>("mask", tokens_)) {
  if (with_documents) device_first_keys_ = run.persistent_values<int32_t>("first_keys", tokens_);
}

void DeviceBatch::take_host_memory() {
  inputs_.resize(tokens_);
  targets_.resize(tokens_);
  mask_.resize(tokens_);
  if (device_first_keys_ != nullptr) first_keys_.resize(tokens_);
}

BatchSpans DeviceBatch::host(int64_t batch) {
  const auto rows = static_cast<size_t>(rows_), first = rows * static_cast<size_t>(batch);
  NG_CHECK(batch >= 0 && first + rows <= tokens_, batch);
  take_host_memory();
  BatchSpans spans{std::span(inputs_).subspan(first, rows),
                   std::span(targets_).subspan(first, rows), std::span(mask_).subspan(first, rows)};
  if (!first_keys_.empty()) spans.first_keys = std::span(first_keys_).subspan(first, rows);
  return spans;
}

void DeviceBatch::upload(Run& run, int64_t first, int64_t count) {
  take_host_memory();
  const auto begin = static_cast<size_t>(first * rows_), size = static_cast<size_t>(count * rows_);
  const auto put = [&](auto* to, const auto& from) {
    run.upload(to + begin, std::span(from).subspan(begin, size));
  };
  put(device_inputs_, std::as_const(inputs_));
  put(device_targets_, std::as_const(targets_));
  put(device_mask_, std::as_const(mask_));
  if (device_first_keys_ != nullptr) put(device_first_keys_, std::as_const(first_keys_));
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

TokenView DeviceBatch::first_keys(int64_t batch) const {
  if (device_first_keys_ == nullptr) return {};
  return {device_first_keys_ + batch * rows_, static_cast<size_t>(rows_)};
}

ConstView DeviceBatch::mask(int64_t batch) const {
  return {device_mask_ + batch * rows_, 1, rows_, rows_};
}

}  // namespace ng
