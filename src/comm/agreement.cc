#include "comm/agreement.h"

#include <fmt/ranges.h>

#include <numeric>
#include <span>

namespace ng {
namespace {

/// The ranks that say `text`.
std::vector<int> ranks_that_say(const std::string& text, const std::vector<std::string>& texts) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (texts[rank] == text) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

/// Each problem once, in the order of the ranks that have it; "" where none has any.
std::string text_of_problems(const std::vector<std::string>& problems) {
  std::string text;
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    const std::vector<int> ranks = ranks_that_say(problems[rank], problems);
    if (ranks.size() == problems.size()) return problems[rank];
    if (problems[rank].empty() || ranks.front() != static_cast<int>(rank)) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name_of_ranks(ranks), problems[rank]);
  }
  return text;
}

}  // namespace

bool any(Comm& comm, bool mine) {
  float is = mine ? 1 : 0;
  comm.max(std::span(&is, 1));
  return is != 0;
}

int64_t number_of(Comm& comm, int root, int64_t mine) {
  comm.broadcast(Traffic::control, std::as_writable_bytes(std::span(&mine, 1)), root);
  return mine;
}

std::string text_of(Comm& comm, int root, const std::string& mine) {
  std::string text = mine;
  text.resize(static_cast<size_t>(number_of(comm, root, std::ssize(mine))));
  comm.broadcast(Traffic::control, std::as_writable_bytes(std::span(text)), root);
  return text;
}

std::vector<std::string> texts_of_all(Comm& comm, const std::string& mine) {
  const auto ranks = static_cast<size_t>(comm.ranks());
  const uint64_t size = mine.size();
  std::vector<uint64_t> sizes(ranks);
  comm.all_gather(Traffic::control, std::as_bytes(std::span(&size, 1)),
                  std::as_writable_bytes(std::span(sizes)),
                  std::vector<size_t>(ranks, sizeof size));
  std::string all(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), '\0');
  comm.all_gather(Traffic::control, std::as_bytes(std::span(mine)),
                  std::as_writable_bytes(std::span(all)),
                  std::vector<size_t>(sizes.begin(), sizes.end()));
  std::vector<std::string> texts;
  size_t at = 0;
  for (const uint64_t bytes : sizes) {
    texts.push_back(all.substr(at, bytes));
    at += bytes;
  }
  return texts;
}

std::string first_text(Comm& comm, const std::string& mine) {
  for (std::string& text : texts_of_all(comm, mine))
    if (!text.empty()) return std::move(text);
  return {};
}

std::string name_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

void require_no_problem(Comm& comm, const std::string& problem) {
  const std::string text = text_of_problems(texts_of_all(comm, problem));
  if (text.empty()) return;
  throw SharedFailure({.problem = text});
}

void require_same(Comm& comm, std::string_view what, std::string_view text) {
  const std::vector<std::string> texts = texts_of_all(comm, std::string(text));
  std::vector<int> others;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (texts[rank] != texts[0]) others.push_back(static_cast<int>(rank));
  if (others.empty()) return;
  throw SharedFailure({.place = name_of_ranks(others),
                       .key = std::string(what),
                       .problem = fmt::format("\"{}\", not \"{}\" as rank 0's",
                                              texts[static_cast<size_t>(others.front())], texts[0]),
                       .remedy = "the same on all ranks"});
}

}  // namespace ng
