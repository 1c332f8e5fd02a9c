// The tokens of batches: filled on the host, used in backend memory.
#pragma once

#include <cstdint>
#include <vector>

#include "data/training_data.h"
#include "nn/batch.h"
#include "run/run.h"

namespace ng {

/// Some batches of `rows` tokens each; `with_documents`: and where their documents begin. Host
/// memory is taken when it is first asked for: a plan of a batch that no machine holds takes none.
class DeviceBatch {
 public:
  DeviceBatch(Run& run, int64_t rows, int64_t batches, bool with_documents = false);

  /// Where the tokens of a batch are put.
  [[nodiscard]] BatchSpans host(int64_t batch);
  /// What was put there, batches [first, first + count), to backend memory.
  void upload(Run& run, int64_t first, int64_t count);

  /// How many targets of those batches count: masks of 1.
  [[nodiscard]] int64_t count_targets(int64_t first, int64_t count) const;

  [[nodiscard]] TokenView inputs(int64_t batch) const;
  [[nodiscard]] TokenView targets(int64_t batch) const;
  [[nodiscard]] ConstView mask(int64_t batch) const;
  /// Empty without documents.
  [[nodiscard]] TokenView first_keys(int64_t batch) const;

 private:
  void take_host_memory();

  int64_t rows_;
  size_t tokens_;  // of all batches
  std::vector<int32_t> inputs_, targets_, first_keys_;
  std::vector<float> mask_;
  int32_t *device_inputs_, *device_targets_;
  float* device_mask_;
  int32_t* device_first_keys_ = nullptr;
};

}  // namespace ng
