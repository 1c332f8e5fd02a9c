// Messages that travel while this rank computes: a thread of their own does one job after the
// other, in the order in which they were given, on a group of its own with the same ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/comm.h"

namespace ng {

/// Of messages, and of that what this rank has waited for: the rest was hidden behind computing.
struct ExchangeSeconds {
  double busy = 0, waited = 0;
};

class BackgroundComm {
 public:
  /// Called by all ranks of `comm`, which outlives it.
  explicit BackgroundComm(Comm& comm);
  ~BackgroundComm();
  BackgroundComm(const BackgroundComm&) = delete;
  BackgroundComm& operator=(const BackgroundComm&) = delete;

  /// All ranks give the same jobs in the same order; a job sees what its giver sees, and its
  /// memory is left alone until it is done.
  using Job = std::function<void(Comm&)>;
  using Ticket = uint64_t;
  Ticket start(Job job);
  /// Returns when that job and all before it are done; what they sent counts as sent by the ranks'
  /// own group from then on. Throws what one of them threw.
  void wait(Ticket ticket);

  /// How long jobs have taken, and how long wait() has.
  [[nodiscard]] ExchangeSeconds seconds() const;

 private:
  void work();

  Comm& comm_;
  std::unique_ptr<Comm> group_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Ticket given_ = 0, done_ = 0;
  BytesByTraffic sent_{};  // of jobs that are done and have not been counted
  ExchangeSeconds seconds_;
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ng
