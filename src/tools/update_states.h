// The states of an update of a file: how they start, and what is written of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "tools/tensor_update.h"
#include "tools/update_input.h"

namespace ng {

/// Weight, stored scale and first states of the file into a fresh update. Throws Error for tensors
/// that it has no place for.
void put_start(const UpdateInput& input, Run& run, TensorUpdate& update);

/// Writes a safetensors file of all states after each of some steps.
class StateWriter {
 public:
  /// `steps`: ascending, as write() will be called.
  StateWriter(const std::string& path, const TensorUpdate& update,
              const std::vector<int64_t>& steps,
              const std::map<std::string, std::string>& metadata);

  /// Returns the names of those that hold a value that is not finite.
  std::vector<std::string> write(const Backend& backend, int64_t step);
  void commit() { writer_.commit(); }

 private:
  void write_stored(const Backend& backend, const Stored& tensor);

  const TensorUpdate& update_;
  io::SafetensorsWriter writer_;
};

}  // namespace ng
