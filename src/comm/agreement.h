// What ranks must know of one another: small answers, the same on all of them. Called by all ranks.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
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

/// Does `work`, which calls nothing of all ranks. Where it throws an Error on any of them all
/// throw: those that failed their own, the others that of the first.
template <class Work>
void on_all(Comm& comm, const Work& work) {
  std::exception_ptr failure;
  std::string problem;
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    problem = error.what();
  }
  const std::string first = first_text(comm, problem);
  if (failure) std::rethrow_exception(failure);
  if (!first.empty())
    throw Error({.place = "another rank", .key = "", .problem = first, .remedy = ""});
}

}  // namespace ng
