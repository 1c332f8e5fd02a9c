#include "comm/background_comm.h"

#include <chrono>
#include <utility>

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

BackgroundComm::BackgroundComm(Comm& comm) : comm_(comm), group_(comm.split(0)) {
  group_->go_as(comm);
  thread_ = std::thread([this] { work(); });
}

BackgroundComm::~BackgroundComm() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

BackgroundComm::Ticket BackgroundComm::start(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return ++given_;
}

void BackgroundComm::wait(Ticket ticket) {
  const Clock::time_point start = Clock::now();
  const Comm::In waits(comm_, "exchange");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket || failure_; });
  seconds_.waited += seconds_since(start);
  comm_.count(std::exchange(sent_, {}));
  if (failure_) std::rethrow_exception(failure_);
}

ExchangeSeconds BackgroundComm::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

// After a failure no job is begun: the group is no longer in step.
void BackgroundComm::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || (!jobs_.empty() && !failure_); });
    if (jobs_.empty() || failure_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const Clock::time_point start = Clock::now();
    const BytesByTraffic before = group_->sent();
    std::exception_ptr failure;
    try {
      job(*group_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    seconds_.busy += seconds_since(start);
    failure_ = failure;
    add(sent_, since(before, group_->sent()));
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace ng
