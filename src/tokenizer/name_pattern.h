// Regular expressions over the names of modules, in what PCRE2 has in common with Python's re.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace ng {

/// Movable.
class NamePattern {
 public:
  /// Throws Error naming `place` and `key` for what PCRE2 does not compile.
  NamePattern(const std::string& pattern, std::string place, std::string key);

  /// Whether a match begins where the name does, as for Python's re.match. Throws Error where that
  /// takes too long to tell.
  [[nodiscard]] bool matches(std::string_view name) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string place_, key_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

}  // namespace ng
