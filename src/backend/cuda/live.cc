#include "backend/cuda/live.h"

#include <cstring>

namespace ng::cuda {

std::vector<std::byte> Live::filled(const StepNumbers& now) const {
  std::vector<std::byte> bytes(offsetof(LiveTable, signs) + drawn_.size() * sizeof(SignBits));
  std::memcpy(bytes.data(), &now, sizeof now);
  std::byte* to = bytes.data() + offsetof(LiveTable, signs);
  for (const Drawn& drawn : drawn_) {
    const SignBits signs = ng::signs_of(StepKey{drawn.key, &now}.now(), drawn.gemm);
    std::memcpy(to, signs.data(), sizeof signs);
    to += sizeof signs;
  }
  return bytes;
}

}  // namespace ng::cuda
