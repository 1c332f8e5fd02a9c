#include "train/supervision.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/exit_codes.h"
#include "train/global_batch.h"

namespace ng {
namespace {

bool asks_to_stop(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1;
}

/// The fewest ranks, but at least `least`, that can share the micro-batches; more than `wanted`
/// where none can.
int fewest_ranks(int64_t micros, int least, int wanted) {
  int ranks = least;
  while (ranks <= wanted && micros % ranks != 0) ++ranks;
  return ranks;
}

}  // namespace

// A failure that the program says comes from what it was given, or was made of it: it would come
// again. mpirun says 1 as well, where it cannot start what it is asked to.
Verdict verdict_on(const JobEnd& end) {
  if (end.code == 0) return Verdict::done;
  if (end.code == kWrongCommandLine) return Verdict::failed;
  if (end.code == kFailed && (end.said || !end.has_trained)) return Verdict::failed;
  if (!end.was_killed && asks_to_stop(end.code - kSignal)) return Verdict::stopped;
  return Verdict::lost;
}

std::string text_of(const JobEnd& end) {
  if (end.code == kLostRank) return "a rank did not answer";
  const int signal = end.code - kSignal;
  if (signal <= 0 || signal >= NSIG) return fmt::format("mpirun ended with exit code {}", end.code);
  return fmt::format("{} was ended by signal {} ({})", end.was_killed ? "mpirun" : "a rank", signal,
                     ::strsignal(signal));
}

RanksLeft::RanksLeft(int64_t micros, int wanted, int least, const std::string& place)
    : micros_(micros), wanted_(wanted), least_(fewest_ranks(micros, least, wanted)) {
  NG_CHECK(least >= 1 && least <= wanted, least, wanted);
  if (least_ > wanted) require_shared_equally(micros, wanted, place);
}

void RanksLeft::lose(int ranks, int slots) {
  if (slots >= ranks) ++lost_;
}

std::optional<int> RanksLeft::next(int slots) const {
  const int limit = std::min(std::max(wanted_ - lost_, least_), slots);
  if (limit < least_) return {};
  return most_ranks(micros_, limit);
}

bool FailuresInARow::are_too_many(int64_t step) {
  if (step > step_) count_ = 0;
  step_ = step;
  return ++count_ > most_;
}

}  // namespace ng
