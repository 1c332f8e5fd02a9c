#include "data/jsonl_lines.h"

#include <fmt/format.h>

#include <cstdint>

namespace ng {

bool is_jsonl(std::string_view path) { return path.ends_with(".jsonl"); }

void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view line, const std::string& place)>& f) {
  int64_t number = 1;
  for (size_t begin = 0; begin < content.size(); ++number) {
    const std::string_view line = content.substr(begin, content.find('\n', begin) - begin);
    begin += line.size() + 1;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      f(line, fmt::format("{}:{}", path, number));
  }
}

}  // namespace ng
