// x86's flush modes for the FP32 arithmetic of a scope: what flush.h says for scalar code.
#pragma once

#include <immintrin.h>

namespace ng {

/// Subnormals are zeros, read and made, in this thread until it goes. Compilers may move arithmetic
/// across its ends: what belongs inside is a function of its own, and not inlined.
class FlushModes {
 public:
  FlushModes() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  }
  ~FlushModes() { _mm_setcsr(before_); }
  FlushModes(const FlushModes&) = delete;
  FlushModes& operator=(const FlushModes&) = delete;

 private:
  unsigned before_;
};

}  // namespace ng
