#include "train/global_batch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "io/checkpoint_files.h"
#include "train/checkpoint.h"
#include "train/session_ranks.h"

namespace ng {
namespace {

/// "1, 2, 4 or 8"
std::string any_of(const std::vector<int64_t>& numbers) {
  if (numbers.size() == 1) return fmt::to_string(numbers.front());
  return fmt::format("{} or {}", fmt::join(numbers.begin(), numbers.end() - 1, ", "),
                     numbers.back());
}

}  // namespace

int most_ranks(int64_t micros, int limit) {
  NG_CHECK(micros > 0 && limit > 0, micros, limit);
  auto ranks = static_cast<int>(std::min<int64_t>(micros, limit));
  while (micros % ranks != 0) --ranks;
  return ranks;
}

void require_shared_equally(int64_t micros, int ranks, const std::string& place) {
  if (micros % ranks == 0) return;
  std::vector<int64_t> able;
  for (int64_t n = 1; n <= std::min<int64_t>(micros, 2 * int64_t{ranks}); ++n)
    if (micros % n == 0) able.push_back(n);
  throw Error({.place = place,
               .key = "",
               .problem = fmt::format("a step has {}, which {} ranks cannot share equally",
                                      counted(micros, "micro-batch"), ranks),
               .remedy = fmt::format("{} {}", any_of(able), able.size() > 1 ? "ranks" : "rank")});
}

std::optional<int64_t> saved_micros(const std::string& folder) {
  for (const io::CheckpointEntry& checkpoint : io::list_checkpoints(folder)) {
    try {
      return micros_of_checkpoint(checkpoint);
    } catch (const Error&) {  // who resumes finds it damaged, and says so
    }
  }
  return {};
}

void keep_global_batch(Comm* comm, const std::string& folder, RunConfig& config,
                       const std::function<void(const std::string&)>& notice) {
  const bool is_writer = comm == nullptr || comm->rank() == kWriter;
  int64_t micros = is_writer ? saved_micros(folder).value_or(0) : 0;
  if (comm != nullptr) micros = number_of(*comm, kWriter, micros);
  if (micros == 0) return;
  // Those that divide layers have their micro-batches together.
  const auto parts = static_cast<int>(config.train.tensor_parallel);
  const int ranks = std::max(1, (comm == nullptr ? 1 : comm->ranks()) / parts);
  require_shared_equally(micros, ranks, folder);
  const int64_t mine = micros / ranks;
  if (mine == config.train.accumulate) return;
  notice(
      fmt::format("{}: train.accumulate = {} is taken as {}: a step of the checkpoint has {}, "
                  "which {} {}",
                  config.place_of({"train.accumulate"}), config.train.accumulate, mine,
                  counted(micros, "micro-batch"), ranks, ranks == 1 ? "rank does" : "ranks share"));
  config.train.accumulate = mine;
}

}  // namespace ng
