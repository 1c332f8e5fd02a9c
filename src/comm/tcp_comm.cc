#include "comm/tcp_comm.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ng::tcp {
namespace {

using std::chrono::steady_clock;

constexpr uint64_t kMagic = 0x314B4E5247414E31;  ///< what a rank's first bytes are
constexpr uint64_t kWorld = 0;                   ///< the group of all ranks
constexpr std::chrono::seconds kGreetingTime{10};
constexpr std::chrono::seconds kSplittingTime{60};  ///< of ranks that are all there

/// What a rank says first of a connection.
struct Greeting {
  uint64_t magic = kMagic;
  uint64_t group = kWorld;
  int32_t rank = 0, ranks = 0;
  int32_t port = 0;  ///< where it listens itself
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> place_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// What tells one group from others: of which it was split, as the how many-th time, and its color.
uint64_t group_within(uint64_t whole, uint64_t count, int color) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const uint64_t word : {whole, count, static_cast<uint64_t>(static_cast<uint32_t>(color))})
    for (int i = 0; i < 64; i += 8) hash = (hash ^ ((word >> i) & 0xFF)) * 0x100000001B3;
  return hash | 1;
}

/// Where this process listens, for all groups that it is in.
class Door {
 public:
  explicit Door(int port) : listener_(port) {}
  [[nodiscard]] int port() const { return listener_.port(); }

  /// The connection of another rank of a group, in whose order they may come. None until `until`.
  Socket take(uint64_t group, int rank, int ranks, Deadline until) {
    const Key wanted{group, rank};
    for (;;) {
      if (const auto found = waiting_.find(wanted); found != waiting_.end()) {
        Socket socket = std::move(found->second);
        waiting_.erase(found);
        return socket;
      }
      Socket caller = listener_.accept(until);
      if (!caller) return caller;
      Greeting greeting;
      const Deadline soon = std::min(until, steady_clock::now() + kGreetingTime);
      if (!caller.receive_all(place_of(greeting), soon) || greeting.magic != kMagic) continue;
      if (greeting.group == group && greeting.ranks != ranks)
        throw Error({.place = "TCP",
                     .problem = fmt::format("a rank says that there are {} of them, not {}",
                                            greeting.ranks, ranks),
                     .remedy = "the same WORLD_SIZE for all"});
      if (waiting_.contains({greeting.group, greeting.rank})) continue;
      if (greeting.group == kWorld) ports_[greeting.rank] = greeting.port;
      waiting_[{greeting.group, greeting.rank}] = std::move(caller);
    }
  }
  /// Where a rank of the world listens that was taken.
  [[nodiscard]] int port_of(int rank) const { return ports_.at(rank); }

 private:
  using Key = std::pair<uint64_t, int>;
  Listener listener_;
  std::map<Key, Socket> waiting_;
  std::map<int, int> ports_;
};

/// The ranks of a group: where each listens, and a connection to each but this one.
struct Ranks {
  std::vector<Address> addresses;
  std::vector<Socket> sockets;
};

/// Bytes that pass between this rank and another in one primitive, each message behind its size.
class Lane {
 public:
  explicit Lane(int rank) : rank_(rank) {}

  void send(std::span<const std::byte> message) {
    const uint64_t size = message.size();
    std::memcpy(sizes_.emplace_back().data(), &size, sizeof size);
    out_.emplace_back(sizes_.back());
    if (!message.empty()) out_.push_back(message);
  }
  void receive(std::span<std::byte> message) { in_.push_back(message); }

  [[nodiscard]] short events() const {
    return static_cast<short>((out_.empty() ? 0 : POLLOUT) | (in_.empty() ? 0 : POLLIN));
  }
  void move(const Socket& socket) {
    while (!out_.empty()) {
      const size_t sent = some(socket.send_some(out_.front()));
      out_.front() = out_.front().subspan(sent);
      if (!out_.front().empty()) break;
      out_.pop_front();
    }
    while (!in_.empty()) {
      const bool is_size = size_read_ < sizeof size_;
      const std::span<std::byte> to = is_size ? place_of(size_).subspan(size_read_) : in_.front();
      const size_t read = some(socket.receive_some(to));
      if (is_size) {
        size_read_ += read;
        if (size_read_ == sizeof size_)
          NG_CHECK(size_ == in_.front().size(), size_, in_.front().size(), rank_);
      } else {
        in_.front() = in_.front().subspan(read);
      }
      if (size_read_ == sizeof size_ && in_.front().empty()) {
        in_.pop_front();
        size_read_ = 0;
      } else if (read == 0) {
        break;
      }
    }
  }

 private:
  [[nodiscard]] size_t some(std::optional<size_t> count) const {
    if (!count) throw LostRank({.place = "TCP", .problem = fmt::format("rank {} is gone", rank_)});
    return *count;
  }

  int rank_;
  std::deque<std::array<std::byte, sizeof(uint64_t)>> sizes_;
  std::deque<std::span<const std::byte>> out_;
  std::deque<std::span<std::byte>> in_;
  uint64_t size_ = 0;  ///< of the message that comes
  size_t size_read_ = 0;
};

class TcpRank final : public Comm {
 public:
  TcpRank(std::shared_ptr<Door> door, uint64_t group, int rank, Ranks others)
      : Comm(rank, static_cast<int>(others.addresses.size())),
        door_(std::move(door)),
        group_(group),
        others_(std::move(others)) {}

  [[nodiscard]] std::unique_ptr<Comm> split(int color) override;

 private:
  void do_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    Lanes lanes;
    for (const Outgoing& message : out) lane(lanes, message.to).send(message.bytes);
    for (const Incoming& message : in) lane(lanes, message.from).receive(message.bytes);
    move(lanes);
  }
  void do_all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     BytesByRank bytes) override {
    Lanes lanes;
    for (int other = 0; other < ranks(); ++other) {
      const std::span<std::byte> theirs = all.first(bytes[static_cast<size_t>(other)]);
      all = all.subspan(theirs.size());
      if (other != rank()) {
        lane(lanes, other).send(mine);
        lane(lanes, other).receive(theirs);
      } else if (!mine.empty() && theirs.data() != mine.data()) {
        std::memcpy(theirs.data(), mine.data(), mine.size());
      }
    }
    move(lanes);
  }
  void do_broadcast(std::span<std::byte> bytes, int root) override {
    Lanes lanes;
    if (rank() != root) lane(lanes, root).receive(bytes);
    for (int other = 0; other < ranks() && rank() == root; ++other)
      if (other != root) lane(lanes, other).send(bytes);
    move(lanes);
  }
  void do_send(std::span<const std::byte> bytes, int to) override {
    Lanes lanes;
    lane(lanes, to).send(bytes);
    move(lanes);
  }
  void do_receive(std::span<std::byte> bytes, int from) override {
    Lanes lanes;
    lane(lanes, from).receive(bytes);
    move(lanes);
  }
  void do_barrier() override {
    const std::vector<size_t> none(static_cast<size_t>(ranks()));
    do_all_gather({}, {}, none);
  }

  using Lanes = std::map<int, Lane>;
  static Lane& lane(Lanes& lanes, int rank) { return lanes.try_emplace(rank, rank).first->second; }

  /// Until all has passed.
  void move(Lanes& lanes) {
    for (;;) {
      std::vector<pollfd> ready;
      for (auto& [rank, lane] : lanes) {
        const Socket& socket = others_.sockets[static_cast<size_t>(rank)];
        lane.move(socket);
        if (const short events = lane.events(); events != 0)
          ready.push_back({.fd = socket.descriptor(), .events = events, .revents = 0});
      }
      if (ready.empty()) return;
      if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR)
        throw Error({.place = "TCP", .key = "poll", .problem = std::strerror(errno)});
    }
  }

  std::shared_ptr<Door> door_;
  uint64_t group_;
  Ranks others_;
  uint64_t splits_ = 0;
};

/// Connects a rank to the others of its group, the higher one to the lower, but for those that it
/// is connected to already.
void connect_all(Door& door, uint64_t group, int rank, Ranks& all, Deadline until) {
  const auto ranks = static_cast<int>(all.addresses.size());
  all.sockets.resize(all.addresses.size());
  for (int lower = 0; lower < rank; ++lower) {
    Socket& socket = all.sockets[static_cast<size_t>(lower)];
    if (socket) continue;
    socket = connect(all.addresses[static_cast<size_t>(lower)], until);
    const Greeting greeting{.group = group, .rank = rank, .ranks = ranks, .port = door.port()};
    (void)socket.send_all(bytes_of(greeting), until);
  }
  for (int higher = rank + 1; higher < ranks; ++higher) {
    Socket& socket = all.sockets[static_cast<size_t>(higher)];
    if (!socket) socket = door.take(group, higher, ranks, until);
    if (!socket)
      throw Error({.place = "TCP",
                   .problem = fmt::format("rank {} of {} did not come", higher, ranks),
                   .remedy = "all ranks started, and ports open between their hosts"});
  }
}

std::unique_ptr<Comm> TcpRank::split(int color) {
  std::vector<int> colors(others_.addresses.size());  // which are no traffic
  do_all_gather(bytes_of(color), std::as_writable_bytes(std::span(colors)),
                std::vector<size_t>(colors.size(), sizeof color));
  Ranks part;
  int own = 0;
  for (size_t i = 0; i < colors.size(); ++i) {
    if (colors[i] != color) continue;
    if (static_cast<int>(i) == rank()) own = static_cast<int>(part.addresses.size());
    part.addresses.push_back(others_.addresses[i]);
  }
  const uint64_t group = group_within(group_, splits_++, color);
  connect_all(*door_, group, own, part, steady_clock::now() + kSplittingTime);
  return std::make_unique<TcpRank>(door_, group, own, std::move(part));
}

/// Rank 0 hears where all others listen, and tells them. A host that it knows by loopback is its
/// own, by whose address all others have come.
void introduce(Door& door, const Address& at, Ranks& all, Deadline until) {
  const auto ranks = static_cast<int>(all.addresses.size());
  all.addresses[0] = at;
  connect_all(door, kWorld, 0, all, until);
  for (size_t i = 1; i < all.addresses.size(); ++i) {
    const Socket& socket = all.sockets[i];
    all.addresses[i].host = socket.is_loopback() ? at.host : socket.peer_host();
    all.addresses[i].port = door.port_of(static_cast<int>(i));
  }
  std::string table;
  for (const Address& address : all.addresses)
    table += fmt::format("{} {}\n", address.host, address.port);
  const uint64_t size = table.size();
  for (int other = 1; other < ranks; ++other) {
    const Socket& socket = all.sockets[static_cast<size_t>(other)];
    (void)(socket.send_all(bytes_of(size), until) &&
           socket.send_all(std::as_bytes(std::span(table)), until));
  }
}

/// What rank 0 tells.
void be_introduced(const Door& door, const Address& at, int rank, Ranks& all, Deadline until) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 24;
  Socket socket = connect(at, until);
  const auto ranks = static_cast<int32_t>(all.addresses.size());
  const Greeting greeting{.rank = rank, .ranks = ranks, .port = door.port()};
  uint64_t size = 0;
  std::string table;
  bool is_told = socket.send_all(bytes_of(greeting), until) &&
                 socket.receive_all(place_of(size), until) && size < kMostBytes;
  if (is_told) {
    table.resize(size);
    is_told = socket.receive_all(std::as_writable_bytes(std::span(table)), until);
  }
  if (!is_told)
    throw Error({.place = "TCP",
                 .problem = fmt::format("rank 0 at {} port {} did not answer", at.host, at.port),
                 .remedy = "all ranks started, the same WORLD_SIZE for all"});
  std::istringstream lines(table);
  for (Address& address : all.addresses) lines >> address.host >> address.port;
  all.sockets.resize(all.addresses.size());
  all.sockets[0] = std::move(socket);
}

}  // namespace

std::unique_ptr<Comm> world(const Address& at, int rank, int ranks,
                            std::chrono::milliseconds patience) {
  NG_CHECK(rank >= 0 && rank < ranks, rank, ranks);
  const Deadline until = steady_clock::now() + patience;
  const auto door = std::make_shared<Door>(rank == 0 ? at.port : 0);
  Ranks all;
  all.addresses.resize(static_cast<size_t>(ranks));
  if (rank == 0) {
    introduce(*door, at, all, until);
  } else {
    be_introduced(*door, at, rank, all, until);
    connect_all(*door, kWorld, rank, all, until);
  }
  return std::make_unique<TcpRank>(door, kWorld, rank, std::move(all));
}

}  // namespace ng::tcp
