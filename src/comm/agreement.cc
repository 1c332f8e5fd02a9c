#include "comm/agreement.h"

#include <numeric>
#include <span>

namespace ng {

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

}  // namespace ng
