// Temporary names that a signal's handler may remove: fixed memory and atomics hold them.
#pragma once

#include <string>

namespace ng {

/// A name that unlink_temporaries() removes while this object lives: of a file, or of a folder with
/// the files in it. Where too many or too long ones are noted, a name goes with its writer alone.
class NotedTemporary {
 public:
  NotedTemporary() = default;
  explicit NotedTemporary(const std::string& name);
  ~NotedTemporary() { forget(); }
  NotedTemporary(const NotedTemporary&) = delete;
  NotedTemporary& operator=(NotedTemporary&& other) noexcept;

  /// It is gone, or has another name.
  void forget() noexcept;

 private:
  int slot_ = -1;
};

}  // namespace ng
