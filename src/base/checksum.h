// A checksum that finds damaged files: XXH3 with 128 bits. Not for secrets.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ng {

/// XXH3-128 of a stream of bytes. [xxHash specification 0.8]
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  /// 32 lower-case hexadecimal digits, most significant first, as `xxhsum -H2` prints them.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string checksum_of(std::span<const std::byte> bytes);

}  // namespace ng
