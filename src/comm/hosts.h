// Which hosts ranks may run on, and how many on each: a file as mpirun reads it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

struct Host {
  std::string name;
  int slots = 1;  ///< ranks that it takes
  friend bool operator==(const Host&, const Host&) = default;
};

/// Lines "name", "name slots=4"; '#' begins a comment. A line without slots counts one, and lines
/// of one name add up. In the order of the file. Throws Error naming `place` and the line.
[[nodiscard]] std::vector<Host> parse_hosts(std::string_view text, const std::string& place);

[[nodiscard]] int slots_of(std::span<const Host> hosts);

/// What mpirun's --host takes for so many ranks, the first hosts filled first: "a:4,b:2".
[[nodiscard]] std::string host_list(std::span<const Host> hosts, int ranks);

}  // namespace ng
