#include "comm/thread_ranks.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace ng {
namespace {

using Message = std::vector<std::byte>;

/// Whose messages, of which group, to whom; ranks are those of the threads.
struct Route {
  std::vector<int> group;
  int from = 0, to = 0;
  bool operator<(const Route& other) const {
    return std::tie(group, from, to) < std::tie(other.group, other.from, other.to);
  }
};

/// Messages that have been sent and not been received, of all groups.
class Post {
 public:
  explicit Post(int ranks) : has_ended_(static_cast<size_t>(ranks)) {}

  void put(const Route& route, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    boxes_[route].emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }

  Message take(const Route& route) {
    std::unique_lock lock(mutex_);
    std::deque<Message>& box = boxes_[route];
    changed_.wait(lock,
                  [&] { return !box.empty() || has_ended_[static_cast<size_t>(route.from)]; });
    if (box.empty())
      throw Error({.place = fmt::format("rank {}", route.to),
                   .problem = fmt::format("waits for rank {}, which has ended", route.from)});
    Message message = std::move(box.front());
    box.pop_front();
    return message;
  }

  /// `failure` is empty where the rank's work is done.
  void end(int rank, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    has_ended_[static_cast<size_t>(rank)] = true;
    if (!first_failure_) first_failure_ = std::move(failure);
    changed_.notify_all();
  }

  /// After all ranks have ended.
  void rethrow_first_failure() const {
    if (first_failure_) std::rethrow_exception(first_failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Route, std::deque<Message>> boxes_;
  std::vector<bool> has_ended_;
  std::exception_ptr first_failure_;
};

/// Every primitive is messages between two ranks.
class ThreadRank : public Comm {
 public:
  /// `members`: the threads of the group, by rank. `group` tells it from all others.
  ThreadRank(Post& post, std::vector<int> group, std::vector<int> members, int rank)
      : Comm(rank, static_cast<int>(members.size())),
        post_(post),
        group_(std::move(group)),
        members_(std::move(members)) {}

  [[nodiscard]] std::unique_ptr<Comm> split(int color) override {
    std::vector<int> colors(members_.size());
    const std::vector<size_t> bytes(members_.size(), sizeof color);
    do_all_gather(std::as_bytes(std::span(&color, 1)), std::as_writable_bytes(std::span(colors)),
                  bytes);
    std::vector<int> members;
    int place = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (colors[i] != color) continue;
      if (static_cast<int>(i) == rank()) place = static_cast<int>(members.size());
      members.push_back(members_[i]);
    }
    std::vector<int> group = group_;
    group.insert(group.end(), {splits_++, color});
    return std::make_unique<ThreadRank>(post_, std::move(group), std::move(members), place);
  }

 private:
  void do_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    for (const Outgoing& message : out) post(message.bytes, message.to);
    for (const Incoming& message : in) take(message.bytes, message.from);
  }
  void do_all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     BytesByRank bytes) override {
    for (int to = 0; to < ranks(); ++to) post(mine, to);
    for (int from = 0; from < ranks(); ++from) {
      take(all.first(bytes[static_cast<size_t>(from)]), from);
      all = all.subspan(bytes[static_cast<size_t>(from)]);
    }
  }
  void do_broadcast(std::span<std::byte> bytes, int root) override {
    if (rank() == root)
      for (int to = 0; to < ranks(); ++to) post(bytes, to);
    take(bytes, root);
  }
  void do_send(std::span<const std::byte> bytes, int to) override { post(bytes, to); }
  void do_receive(std::span<std::byte> bytes, int from) override { take(bytes, from); }
  void do_barrier() override {
    for (int to = 0; to < ranks(); ++to) post({}, to);
    for (int from = 0; from < ranks(); ++from) take({}, from);
  }

  void post(std::span<const std::byte> bytes, int to) {
    post_.put({group_, members_[static_cast<size_t>(rank())], members_[static_cast<size_t>(to)]},
              bytes);
  }
  void take(std::span<std::byte> bytes, int from) {
    const Message message = post_.take(
        {group_, members_[static_cast<size_t>(from)], members_[static_cast<size_t>(rank())]});
    NG_CHECK(message.size() == bytes.size(), from, message.size(), bytes.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), message.data(), bytes.size());
  }

  Post& post_;
  std::vector<int> group_, members_;
  int splits_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Comm&)>& body) {
  NG_CHECK(ranks > 0, ranks);
  Post post(ranks);
  std::vector<int> members(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) members[static_cast<size_t>(i)] = i;
  const auto run = [&](int rank) {
    std::exception_ptr failure;
    try {
      ThreadRank comm(post, {}, members, rank);
      body(comm);
    } catch (...) {
      failure = std::current_exception();
    }
    post.end(rank, failure);
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
    } catch (...) {  // nobody may wait for a rank that could not start
      for (int rank = static_cast<int>(threads.size()); rank < ranks; ++rank)
        post.end(rank, std::current_exception());
    }
  }
  post.rethrow_first_failure();
}

}  // namespace ng
