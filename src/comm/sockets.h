// TCP connections of this process: bytes there and back, and who calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace ng::tcp {

using Deadline = std::chrono::steady_clock::time_point;

/// A host and its port, as connect() takes them: a name or a number.
struct Address {
  std::string host;
  int port = 0;
};

/// A file descriptor, which is closed with it.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] explicit operator bool() const { return descriptor_ >= 0; }

  /// As many bytes as can be sent, or are there, at once; nullopt: the other end is gone.
  [[nodiscard]] std::optional<size_t> send_some(std::span<const std::byte> bytes) const;
  [[nodiscard]] std::optional<size_t> receive_some(std::span<std::byte> bytes) const;
  /// All of them; false: the other end is gone, or `until` has passed.
  [[nodiscard]] bool send_all(std::span<const std::byte> bytes, Deadline until) const;
  [[nodiscard]] bool receive_all(std::span<std::byte> bytes, Deadline until) const;

  /// The host at the other end, as a number; whether it is this one, by a name that only this host
  /// means itself by.
  [[nodiscard]] std::string peer_host() const;
  [[nodiscard]] bool is_loopback() const;

 private:
  int descriptor_;
};

/// Takes connections from all hosts; none of its calls waits longer than it is told.
class Listener {
 public:
  /// `port` 0: one that is free. Throws Error naming the port where it is taken.
  explicit Listener(int port);
  [[nodiscard]] int port() const;
  /// The next that calls; none until `until`.
  [[nodiscard]] Socket accept(Deadline until) const;

 private:
  Socket socket_;
};

/// Again and again, until it is taken or `until` has passed: then Error naming the address.
[[nodiscard]] Socket connect(const Address& address, Deadline until);

}  // namespace ng::tcp
