// When a job of several ranks ends before its run does: whether it is started again, and on how
// many ranks. What is decided here is done by `supervise`. [distributed.md §6]
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ng {

/// How mpirun ended.
struct JobEnd {
  int code = 0;              ///< its exit code: that of the first rank that failed; 128 + signal
  bool was_killed = false;   ///< mpirun itself got that signal
  bool said = false;         ///< a rank said in a line of its own what is wrong
  bool has_trained = false;  ///< it came to its first step
};

enum class Verdict {
  done,     ///< the run is complete
  stopped,  ///< somebody asked it to stop, and it did
  failed,   ///< by what would happen again: it is not started again
  lost,     ///< ranks, or hosts: others can go on
};

[[nodiscard]] Verdict verdict_on(const JobEnd& end);
/// "a rank was ended by signal 9 (Killed)"
[[nodiscard]] std::string text_of(const JobEnd& end);

/// How many ranks there are left to start. A job that was lost costs a rank, down to the least;
/// one that was lost with its host costs no other.
class RanksLeft {
 public:
  /// A step has so many micro-batches, which every number of ranks must share equally. Throws Error
  /// at `place` where none from `least` to `wanted` does. 1 <= least <= wanted.
  RanksLeft(int64_t micros, int wanted, int least, const std::string& place);

  /// A job of so many ranks was lost; the hosts that answer have so many slots.
  void lose(int ranks, int slots);
  /// The most ranks to start on so many slots; none where those are too few.
  [[nodiscard]] std::optional<int> next(int slots) const;

 private:
  int64_t micros_;
  int wanted_, least_;
  int lost_ = 0;
};

/// Counts failures since the last one that a newer checkpoint came before.
class FailuresInARow {
 public:
  explicit FailuresInARow(int most) : most_(most) {}
  /// Of a job; `step` is that of the newest checkpoint. Whether they are more than so many.
  [[nodiscard]] bool are_too_many(int64_t step);
  [[nodiscard]] int count() const { return count_; }

 private:
  int most_, count_ = 0;
  int64_t step_ = -1;
};

}  // namespace ng
