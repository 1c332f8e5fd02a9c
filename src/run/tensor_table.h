// The model's table of tensor names. An index into it is the tensor's part of every random key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ng {

class TensorTable {
 public:
  /// Adds `name` and returns its index; names are unique, at most 2^20 of them.
  uint32_t add(const std::string& name);
  /// Index of a name; -1 where there is none.
  [[nodiscard]] int64_t find(const std::string& name) const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// Of all names in order; a checkpoint whose table differs is refused. [recipes.md §0]
  [[nodiscard]] uint64_t hash() const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> index_;
};

}  // namespace ng
