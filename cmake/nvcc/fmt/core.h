// In the place of libfmt where nvcc compiles kernels, for it does not read that: what a broken
// contract says is then the condition alone.
#pragma once

#include <string>

namespace fmt {

template <class... Values>
std::string format(const char* text, const Values&... /* values */) {
  return text;
}

}  // namespace fmt
