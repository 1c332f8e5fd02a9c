#include "comm/hosts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/error.h"

namespace ng {
namespace {

constexpr int kMostSlots = 1 << 16;

/// Of "slots=4".
std::optional<int> slots_in(std::string_view word) {
  constexpr std::string_view kKey = "slots=";
  if (!word.starts_with(kKey)) return {};
  word.remove_prefix(kKey.size());
  int slots = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), slots);
  if (failed != std::errc() || end != word.data() + word.size() || slots < 1 || slots > kMostSlots)
    return {};
  return slots;
}

Host parse_line(std::istringstream& words, const std::string& place) {
  Host host;
  words >> host.name;
  for (std::string word; words >> word;) {
    const std::optional<int> slots = slots_in(word);
    if (!slots)
      throw Error({.place = place,
                   .key = host.name,
                   .problem = "\"" + word + "\"",
                   .remedy = fmt::format("slots=N, N from 1 to {}", kMostSlots)});
    host.slots = *slots;
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, const std::string& place) {
  std::vector<Host> hosts;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host = parse_line(words, fmt::format("{}:{}", place, number));
    if (host.name.empty()) continue;
    const auto before = std::find_if(hosts.begin(), hosts.end(),
                                     [&](const Host& other) { return other.name == host.name; });
    if (before == hosts.end())
      hosts.push_back(std::move(host));
    else
      before->slots += host.slots;
  }
  if (hosts.empty())
    throw Error(
        {.place = place, .problem = "names no host", .remedy = "one to a line: NAME slots=N"});
  return hosts;
}

int slots_of(std::span<const Host> hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

std::string host_list(std::span<const Host> hosts, int ranks) {
  NG_CHECK(ranks <= slots_of(hosts), ranks, slots_of(hosts));
  std::string list;
  for (const Host& host : hosts) {
    const int here = std::min(host.slots, ranks);
    if (here == 0) break;
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, here);
    ranks -= here;
  }
  return list;
}

}  // namespace ng
