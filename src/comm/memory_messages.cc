#include "comm/memory_messages.h"

#include <set>
#include <string>
#include <vector>

#include "comm/agreement.h"

namespace ng {
namespace {

using Bytes = std::vector<std::byte>;

Bytes downloaded(const Backend& backend, std::span<const std::byte> from) {
  Bytes copy(from.size());
  backend.download(copy.data(), from.data(), from.size());
  return copy;
}

/// Whether each rank has a device of its own, which sends and receives by itself.
bool can_link(Comm& comm, const std::string& address) {
  const std::vector<std::string> all = texts_of_all(comm, address);
  const std::set<std::string> different(all.begin(), all.end());
  return different.size() == all.size() && !different.contains("");
}

/// Null: the ranks' devices have no way to one another. All ranks ask at the same message first.
DeviceMessages* device_messages(Comm& comm, Backend& backend) {
  auto& kept = comm.device_messages();
  if (!kept) {
    kept.emplace();
    if (comm.ranks() > 1 && can_link(comm, backend.device_address()))
      *kept = backend.make_device_messages(
          comm.rank(), comm.ranks(),
          [&](std::span<std::byte> bytes) { comm.broadcast(Traffic::control, bytes, 0); });
  }
  return kept->get();
}

/// Counted, and seen by a watchdog, as Comm::exchange is.
void exchange(Comm& comm, DeviceMessages& by, const BytesByTraffic& sent,
              std::span<const DeviceMessage> out, std::span<const DeviceMessage> in) {
  comm.count(sent);
  const Comm::In in_primitive(comm, "exchange");
  try {
    by.exchange(out, in);
  } catch (const Error& error) {
    throw LostRank(error.parts());
  }
}

/// One for each rank, this one included: `of(rank)`.
template <class Of>
std::vector<DeviceMessage> with_each(const Comm& comm, const Of& of) {
  std::vector<DeviceMessage> messages;
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    const std::span<std::byte> bytes = of(static_cast<size_t>(rank));
    messages.push_back({rank, bytes.data(), bytes.size()});
  }
  return messages;
}

/// The same but for this one.
template <class Of>
std::vector<DeviceMessage> with_others(const Comm& comm, const Of& of) {
  std::vector<DeviceMessage> messages = with_each(comm, of);
  messages.erase(messages.begin() + comm.rank());
  return messages;
}

/// `size` bytes to each of them.
BytesByTraffic to_others(const Comm& comm, Traffic kind, size_t size) {
  BytesByTraffic sent{};
  sent[static_cast<size_t>(kind)] = size * static_cast<size_t>(comm.ranks() - 1);
  return sent;
}

/// DeviceMessages reads what it sends.
std::span<std::byte> as_sent(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

std::vector<size_t> equal_parts(const Comm& comm, size_t bytes) {
  const auto ranks = static_cast<size_t>(comm.ranks());
  return std::vector<size_t>(ranks, bytes / ranks);
}

}  // namespace

void exchange(Comm& comm, Backend& backend, std::span<const Outgoing> out,
              std::span<const Incoming> in) {
  if (backend.is_in_hosts_reach()) return comm.exchange(out, in);
  if (DeviceMessages* const by = device_messages(comm, backend)) {
    std::vector<DeviceMessage> sent, received;
    BytesByTraffic bytes{};
    for (const Outgoing& message : out) {
      const std::span<std::byte> from = as_sent(message.bytes);
      sent.push_back({message.to, from.data(), from.size()});
      bytes[static_cast<size_t>(message.kind)] += from.size();
    }
    for (const Incoming& message : in)
      received.push_back({message.from, message.bytes.data(), message.bytes.size()});
    return exchange(comm, *by, bytes, sent, received);
  }
  std::vector<Bytes> copies;  // whose bytes stay where they are while it grows
  std::vector<Outgoing> host_out(out.begin(), out.end());
  for (Outgoing& message : host_out)
    message.bytes = copies.emplace_back(downloaded(backend, message.bytes));
  std::vector<Incoming> host_in(in.begin(), in.end());
  for (Incoming& message : host_in) message.bytes = copies.emplace_back(message.bytes.size());
  comm.exchange(host_out, host_in);
  for (size_t i = 0; i < in.size(); ++i)
    backend.upload(in[i].bytes.data(), host_in[i].bytes.data(), in[i].bytes.size());
}

void all_gather(Comm& comm, Backend& backend, Traffic kind, std::span<std::byte> all) {
  const std::vector<size_t> parts = equal_parts(comm, all.size());
  const size_t size = parts[0];
  const std::span<std::byte> mine = all.subspan(static_cast<size_t>(comm.rank()) * size, size);
  if (backend.is_in_hosts_reach()) return comm.all_gather(kind, mine, all, parts);
  if (DeviceMessages* const by = device_messages(comm, backend)) {
    const std::vector<DeviceMessage> out = with_others(comm, [&](size_t) { return mine; }),
                                     in = with_others(comm, [&](size_t rank) {
                                       return all.subspan(rank * size, size);
                                     });
    return exchange(comm, *by, to_others(comm, kind, size), out, in);
  }
  Bytes host(all.size());
  comm.all_gather(kind, downloaded(backend, mine), host, parts);
  backend.upload(all.data(), host.data(), host.size());
}

void all_to_all(Comm& comm, Backend& backend, Traffic kind, std::span<const std::byte> out,
                std::span<std::byte> in) {
  const std::vector<size_t> parts = equal_parts(comm, out.size());
  if (backend.is_in_hosts_reach()) return comm.all_to_all(kind, out, parts, in, parts);
  if (DeviceMessages* const by = device_messages(comm, backend)) {
    const size_t size = parts[0];
    const auto piece = [&](std::span<std::byte> of) {
      return with_each(comm, [=](size_t rank) { return of.subspan(rank * size, size); });
    };
    return exchange(comm, *by, to_others(comm, kind, size), piece(as_sent(out)), piece(in));
  }
  Bytes host(in.size());
  comm.all_to_all(kind, downloaded(backend, out), parts, host, parts);
  backend.upload(in.data(), host.data(), host.size());
}

}  // namespace ng
