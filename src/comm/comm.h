// THE SEAM between ranks: a handful of primitives that carry bytes. Sums are ours: a transport
// never looks into what it carries, so no result depends on it. Every rank of a group calls the
// same primitives in the same order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backend/device_messages.h"
#include "base/error.h"
#include "comm/traffic_kind.h"

namespace ng {

/// A transport fails: most often because another rank is gone.
class LostRank : public Error {
  using Error::Error;
};

/// Bytes of each rank, by rank.
using BytesByRank = std::span<const size_t>;

/// Bytes for another rank, and from one; they stay where they are until the exchange is over.
struct Outgoing {
  int to = 0;
  Traffic kind{};
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;
};

/// A group of ranks, as one of them sees it.
class Comm {
 public:
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  [[nodiscard]] int rank() const { return rank_; }  ///< of this process, in [0, ranks())
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Messages between pairs of ranks, all at once; those of a pair come in the order in which they
  /// are listed on both sides. None is for this rank itself.
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in);
  /// The pieces of `out` follow one another, `out_bytes[i]` for rank i; in `in` those of rank i for
  /// this one are `in_bytes[i]`. A rank's piece for itself is copied.
  void all_to_all(Traffic kind, std::span<const std::byte> out, BytesByRank out_bytes,
                  std::span<std::byte> in, BytesByRank in_bytes);
  /// `mine` of every rank, by rank, `bytes[i]` of rank i; it may lie in its place already.
  void all_gather(Traffic kind, std::span<const std::byte> mine, std::span<std::byte> all,
                  BytesByRank bytes);
  /// `bytes` of rank `root` to all.
  void broadcast(Traffic kind, std::span<std::byte> bytes, int root);
  /// To one rank, which receives as many bytes. Messages between two ranks keep their order.
  void send(Traffic kind, std::span<const std::byte> bytes, int to);
  void receive(std::span<std::byte> bytes, int from);
  /// Returns when all ranks are here.
  void barrier();

  /// Small exact reductions, element by element, over all ranks: the largest (NaN wins), the sum of
  /// integers, and sums in FP64 in the order of ranks, which are the same on all of them.
  void max(std::span<float> values);
  void sum(std::span<uint64_t> values);
  void sum(std::span<double> values);

  /// The group of those ranks that name the same `color`, in the order of their ranks here. Counts
  /// its own bytes. Called by all ranks.
  [[nodiscard]] virtual std::unique_ptr<Comm> split(int color) = 0;

  /// What a watchdog sees, from another thread: the primitive that this rank is in, null where it
  /// is in none, for how long, and the step that it has come to; -1: none.
  struct Waiting {
    const char* primitive = nullptr;
    std::chrono::steady_clock::duration time{};
    int64_t step = -1;
  };
  [[nodiscard]] Waiting waiting() const;
  void note_step(int64_t step) { step_ = step; }
  /// From now on whoever watches `whole`, which this is a part of, sees what this waits in.
  void be_seen_in(Comm& whole) { seen_in_ = &whole; }

  /// While it lives, a watchdog sees this rank in a primitive: in one of its own, or in what is
  /// waited for.
  class In {
   public:
    In(Comm& comm, const char* primitive)
        : comm_(comm.seen_in_ != nullptr ? *comm.seen_in_ : comm) {
      comm_.since_ = std::chrono::steady_clock::now().time_since_epoch().count();
      comm_.primitive_ = primitive;
    }
    ~In() { comm_.primitive_ = nullptr; }
    In(const In&) = delete;
    In& operator=(const In&) = delete;

   private:
    Comm& comm_;
  };

  /// Where memory_messages.h keeps what the devices of these ranks send by, once it has asked; null
  /// where they have no way to one another.
  [[nodiscard]] std::optional<std::unique_ptr<DeviceMessages>>& device_messages() {
    return device_messages_;
  }
  /// Messages of devices go by the hosts, as those of `whole` do if this is split from it.
  void go_by_hosts() { device_messages_.emplace(); }
  void go_as(const Comm& whole) {
    if (whole.device_messages_ && *whole.device_messages_ == nullptr) go_by_hosts();
  }

  /// Bytes that this rank has sent to others, by what they were; its own pieces do not count.
  [[nodiscard]] const BytesByTraffic& sent() const { return sent_; }
  /// What this rank has sent in another group counts here, too.
  void count(const BytesByTraffic& elsewhere) { add(sent_, elsewhere); }

 protected:
  Comm(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

 private:
  virtual void do_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) = 0;
  virtual void do_all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             BytesByRank bytes) = 0;
  virtual void do_broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void do_send(std::span<const std::byte> bytes, int to) = 0;
  virtual void do_receive(std::span<std::byte> bytes, int from) = 0;
  virtual void do_barrier() = 0;

  void count(Traffic kind, size_t bytes) { sent_[static_cast<size_t>(kind)] += bytes; }
  template <class Value, class Merge>
  void reduce(std::span<Value> values, const Merge& merge);

  int rank_, ranks_;
  Comm* seen_in_ = nullptr;
  std::optional<std::unique_ptr<DeviceMessages>> device_messages_;
  BytesByTraffic sent_{};
  std::atomic<const char*> primitive_{nullptr};
  std::atomic<std::chrono::steady_clock::rep> since_{0};
  std::atomic<int64_t> step_{-1};
};

/// The one rank of a program that was not started with others.
[[nodiscard]] std::unique_ptr<Comm> one_rank();

}  // namespace ng
