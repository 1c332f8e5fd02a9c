// What ranks must know of one another: small answers, the same on all of them. Called by all ranks.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/comm.h"

namespace ng {

/// Whether it is true on any rank.
[[nodiscard]] bool any(Comm& comm, bool mine);

/// The number of rank `root`.
[[nodiscard]] int64_t number_of(Comm& comm, int root, int64_t mine);

/// The text of rank `root`.
[[nodiscard]] std::string text_of(Comm& comm, int root, const std::string& mine);

/// The texts of all ranks, by rank.
[[nodiscard]] std::vector<std::string> texts_of_all(Comm& comm, const std::string& mine);

/// The text of the first rank whose text is not empty; empty where there is none.
[[nodiscard]] std::string first_text(Comm& comm, const std::string& mine);

/// The values of all ranks, in their order; each has as many.
template <class Value>
[[nodiscard]] std::vector<Value> gathered(Comm& comm, std::span<const Value> mine) {
  const auto ranks = static_cast<size_t>(comm.ranks());
  std::vector<Value> all(mine.size() * ranks);
  comm.all_gather(Traffic::control, std::as_bytes(mine), std::as_writable_bytes(std::span(all)),
                  std::vector<size_t>(ranks, mine.size_bytes()));
  return all;
}

/// A failure that all ranks throw at the same place, with the same text: rank 0 says it for all.
class SharedFailure : public Error {
  using Error::Error;
};

/// "rank 1", "ranks 1, 2"
[[nodiscard]] std::string name_of_ranks(const std::vector<int>& ranks);

/// What is wrong on each rank, "" where nothing is. Throws SharedFailure where anything is on any,
/// naming the ranks unless all say the same.
void require_no_problem(Comm& comm, const std::string& problem);

/// Throws SharedFailure, naming those whose `text` is not rank 0's. `what`: "the recipe".
void require_same(Comm& comm, std::string_view what, std::string_view text);

/// Does `work`, which calls nothing of all ranks. Where it throws on any of them, all throw
/// SharedFailure; one rank alone throws what `work` did.
template <class Work>
void on_all(Comm& comm, const Work& work) {
  if (comm.ranks() == 1) return work();
  std::string problem;
  try {
    work();
  } catch (const std::exception& error) {
    problem = failure_text(error);
  }
  require_no_problem(comm, problem);
}
/// `comm` null: of one rank.
template <class Work>
void on_all(Comm* comm, const Work& work) {
  if (comm == nullptr) return work();
  on_all(*comm, work);
}

}  // namespace ng
