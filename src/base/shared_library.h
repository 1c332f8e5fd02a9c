// A shared library that may be missing: looked for when it is asked for, and linked to by nothing.
#pragma once

#include <dlfcn.h>

namespace ng {

/// For as long as the process lives.
class SharedLibrary {
 public:
  /// "libnccl.so.2"
  explicit SharedLibrary(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}

  /// *result = the function; false where the library lacks it, or is missing.
  template <class F>
  bool find(const char* name, F*& result) const {
    result = handle_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle_, name));
    return result != nullptr;
  }

 private:
  void* handle_;
};

}  // namespace ng
