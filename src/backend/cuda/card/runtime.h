// Calls of CUDA's runtime: what they fail of, and the card that they are of.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace ng::cuda {

/// Whether a call was refused for launches are captured.
inline bool is_of_capture(cudaError_t code) {
  return code >= cudaErrorStreamCaptureUnsupported && code <= cudaErrorStreamCaptureWrongThread;
}

/// `what` was being done when the card failed, or when it was heard of a kernel that had.
inline void check(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return;
  throw Error({.place = "cuda",
               .problem = std::string(what) + ": " + cudaGetErrorString(code),
               .remedy = code == cudaErrorMemoryAllocation ? "a smaller batch, context or model"
                         : is_of_capture(code) ? "NARROWGAUGE_CUDA_GRAPHS=0, which does without"
                                               : "the card's state by nvidia-smi"});
}

/// While it lives this thread's calls are of a card; before and after, of what others have chosen.
class OnCard {
 public:
  explicit OnCard(int device) {
    check(cudaGetDevice(&before_), "the card of a thread");
    if (device != before_) check(cudaSetDevice(device), "the card of a thread");
  }
  ~OnCard() { cudaSetDevice(before_); }
  OnCard(const OnCard&) = delete;
  OnCard& operator=(const OnCard&) = delete;

 private:
  int before_ = 0;
};

}  // namespace ng::cuda
