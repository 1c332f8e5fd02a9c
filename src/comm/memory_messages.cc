#include "comm/memory_messages.h"

#include <vector>

namespace ng {
namespace {

using Bytes = std::vector<std::byte>;

Bytes downloaded(const Backend& backend, std::span<const std::byte> from) {
  Bytes copy(from.size());
  backend.download(copy.data(), from.data(), from.size());
  return copy;
}

std::vector<size_t> equal_parts(const Comm& comm, size_t bytes) {
  const auto ranks = static_cast<size_t>(comm.ranks());
  return std::vector<size_t>(ranks, bytes / ranks);
}

}  // namespace

void exchange(Comm& comm, Backend& backend, std::span<const Outgoing> out,
              std::span<const Incoming> in) {
  if (backend.is_in_hosts_reach()) return comm.exchange(out, in);
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
  Bytes host(all.size());
  comm.all_gather(kind, downloaded(backend, mine), host, parts);
  backend.upload(all.data(), host.data(), host.size());
}

void all_to_all(Comm& comm, Backend& backend, Traffic kind, std::span<const std::byte> out,
                std::span<std::byte> in) {
  const std::vector<size_t> parts = equal_parts(comm, out.size());
  if (backend.is_in_hosts_reach()) return comm.all_to_all(kind, out, parts, in, parts);
  Bytes host(in.size());
  comm.all_to_all(kind, downloaded(backend, out), parts, host, parts);
  backend.upload(in.data(), host.data(), host.size());
}

}  // namespace ng
