#include "run/tensor_table.h"

#include "base/error.h"

namespace ng {

uint32_t TensorTable::add(const std::string& name) {
  const auto index = static_cast<uint32_t>(names_.size());
  NG_CHECK(index < (1u << 20), index);
  NG_CHECK(index_.emplace(name, index).second, name);
  names_.push_back(name);
  return index;
}

int64_t TensorTable::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : int64_t{found->second};
}

uint64_t TensorTable::hash() const {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, 64 bits, names separated by a zero byte
  const auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const std::string& name : names_) {
    for (const char c : name) mix(static_cast<unsigned char>(c));
    mix(0);
  }
  return hash;
}

}  // namespace ng
