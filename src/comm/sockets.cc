#include "comm/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace ng::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Messages go at once, and a host that is gone is noticed within two minutes.
void prepare(const Socket& socket) {
  constexpr int kOn = 1, kIdle = 30, kBetween = 15, kProbes = 6;  // seconds
  const auto set = [&](int level, int what, int value) {
    ::setsockopt(socket.descriptor(), level, what, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, kOn);
  set(SOL_SOCKET, SO_KEEPALIVE, kOn);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kBetween);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

/// Whether it becomes ready for one of `events`.
bool waits_for(const Socket& socket, short events, Deadline until) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{.fd = socket.descriptor(), .events = events, .revents = 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1 << 20)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

bool is_only_busy() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// Transfer `some` until none are left.
template <class Bytes, class Some>
bool all_of(const Socket& socket, Bytes bytes, short events, Deadline until, const Some& some) {
  while (!bytes.empty()) {
    const std::optional<size_t> done = some(bytes);
    if (!done) return false;
    bytes = bytes.subspan(*done);
    if (*done == 0 && !waits_for(socket, events, until)) return false;
  }
  return true;
}

sockaddr_storage peer_of(const Socket& socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  ::getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&peer), &size);
  return peer;
}

struct AddressList {
  addrinfo* first = nullptr;
  int code = 0;
  explicit AddressList(const Address& of) {
    addrinfo wish{};
    wish.ai_family = AF_UNSPEC;
    wish.ai_socktype = SOCK_STREAM;
    code = ::getaddrinfo(of.host.c_str(), std::to_string(of.port).c_str(), &wish, &first);
  }
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
  AddressList(const AddressList&) = delete;
  AddressList& operator=(const AddressList&) = delete;
};

/// Whether what was begun is done until then; else errno says why.
bool is_connected(const Socket& socket, int begun, Deadline until) {
  if (begun == 0) return true;
  if (errno != EINPROGRESS) return false;
  errno = ETIMEDOUT;
  if (!waits_for(socket, POLLOUT, until)) return false;
  socklen_t size = sizeof errno;
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &errno, &size);
  return errno == 0;
}

/// The connection, or none and why.
Socket try_connect(const Address& address, Deadline until, std::string& why) {
  const AddressList list(address);
  if (list.code != 0) why = ::gai_strerror(list.code);
  for (const addrinfo* at = list.first; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int begun =
        socket ? ::connect(socket.descriptor(), at->ai_addr, at->ai_addrlen) : int{-1};
    if (socket && is_connected(socket, begun, until)) return socket;
    why = std::strerror(errno);
  }
  return Socket();
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<size_t> Socket::send_some(std::span<const std::byte> bytes) const {
  const ssize_t count =
      ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0) return static_cast<size_t>(count);
  return is_only_busy() ? std::optional<size_t>(0) : std::nullopt;
}

std::optional<size_t> Socket::receive_some(std::span<std::byte> bytes) const {
  if (bytes.empty()) return 0;
  const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) return static_cast<size_t>(count);
  return count < 0 && is_only_busy() ? std::optional<size_t>(0) : std::nullopt;
}

bool Socket::send_all(std::span<const std::byte> bytes, Deadline until) const {
  return all_of(*this, bytes, POLLOUT, until, [&](auto some) { return send_some(some); });
}
bool Socket::receive_all(std::span<std::byte> bytes, Deadline until) const {
  return all_of(*this, bytes, POLLIN, until, [&](auto some) { return receive_some(some); });
}

std::string Socket::peer_host() const {
  const sockaddr_storage peer = peer_of(*this);
  std::array<char, NI_MAXHOST> text{};
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&peer), sizeof peer, text.data(), text.size(),
                nullptr, 0, NI_NUMERICHOST);
  const std::string host = text.data();
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 that came by a socket of IPv6
  return host.starts_with(kMapped) ? host.substr(kMapped.size()) : host;
}

bool Socket::is_loopback() const {
  const std::string host = peer_host();
  return host == "::1" || host.starts_with("127.");
}

Listener::Listener(int port) {
  constexpr int kBacklog = 1024;
  const auto opened = [&](int family, const sockaddr* at, socklen_t size) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return Socket();
    const int on = 1, off = 0;
    ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6)
      ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (::bind(socket.descriptor(), at, size) != 0) return Socket();
    return ::listen(socket.descriptor(), kBacklog) == 0 ? std::move(socket) : Socket();
  };
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_port = htons(static_cast<uint16_t>(port));
  socket_ = opened(AF_INET6, reinterpret_cast<const sockaddr*>(&all), sizeof all);
  if (socket_) return;
  sockaddr_in old{};  // of a host without IPv6
  old.sin_family = AF_INET;
  old.sin_port = htons(static_cast<uint16_t>(port));
  socket_ = opened(AF_INET, reinterpret_cast<const sockaddr*>(&old), sizeof old);
  if (!socket_)
    throw Error({.place = "TCP",
                 .problem = fmt::format("port {}: {}", port, std::strerror(errno)),
                 .remedy = "another MASTER_PORT"});
}

int Listener::port() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(socket_.descriptor(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

Socket Listener::accept(Deadline until) const {
  while (waits_for(socket_, POLLIN, until)) {
    Socket caller(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller) continue;  // who called is gone again
    prepare(caller);
    return caller;
  }
  return Socket();
}

Socket connect(const Address& address, Deadline until) {
  constexpr milliseconds kPause{50};
  std::string why;
  do {
    Socket socket = try_connect(address, until, why);
    if (socket) {
      prepare(socket);
      return socket;
    }
    std::this_thread::sleep_for(kPause);  // it may not listen yet
  } while (steady_clock::now() < until);
  throw Error({.place = "TCP",
               .problem = fmt::format("{} port {}: {}", address.host, address.port, why),
               .remedy = "MASTER_ADDR and MASTER_PORT of the host that rank 0 runs on"});
}

}  // namespace ng::tcp
