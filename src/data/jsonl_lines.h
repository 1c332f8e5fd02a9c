// The lines of a file of JSON objects.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ng {

/// Whether a file is read as JSONL: its name ends in ".jsonl".
[[nodiscard]] bool is_jsonl(std::string_view path);

/// f(line, "path:number") of each line of `content`; those of white space alone are passed over.
void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view line, const std::string& place)>& f);

}  // namespace ng
