// Messages between the devices of ranks that do not go by the hosts' memory: what NCCL does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace ng {

/// For a rank, or from one.
struct DeviceMessage {
  int rank = 0;
  std::byte* bytes = nullptr;  ///< of the backend's memory
  size_t size = 0;
};

/// Of a group of ranks, as one of them has it.
class DeviceMessages {
 public:
  DeviceMessages() = default;
  virtual ~DeviceMessages() = default;
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  /// Behind the operations so far; all has come and gone on return. Those of a pair come in the
  /// order in which they are listed on both sides; a rank may send to itself. Called by all ranks
  /// of the group, by one thread at a time.
  virtual void exchange(std::span<const DeviceMessage> out, std::span<const DeviceMessage> in) = 0;
};

/// How the ranks of a group come to have the same bytes: those of rank 0.
using FromFirst = std::function<void(std::span<std::byte>)>;

}  // namespace ng
