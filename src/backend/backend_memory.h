// Memory of a backend for as long as an object lives.
#pragma once

#include "backend/backend.h"

namespace ng {

class BackendMemory {
 public:
  BackendMemory(Backend& backend, size_t bytes)
      : backend_(backend), bytes_(bytes), data_(backend.allocate(bytes)) {}
  ~BackendMemory() { backend_.release(data_, bytes_); }
  BackendMemory(const BackendMemory&) = delete;
  BackendMemory& operator=(const BackendMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(data_); }
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  Backend& backend_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace ng
