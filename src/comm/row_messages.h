// Rows of stored tensors as messages: memory of elements, of scales, of their second level.
#pragma once

#include <span>
#include <vector>

#include "comm/comm.h"
#include "comm/partition.h"
#include "tensor/view.h"

namespace ng {

/// Whether all of a tensor has one scale, which pieces of it share.
template <class Byte>
[[nodiscard]] bool has_one_scale(const BasicView<Byte>& x) {
  return x.has_scales() && x.scales.block.kind == Block::Kind::tensor;
}

/// body(bytes, is_scale) for all memory of a tensor whose rows follow one another.
template <class Byte, class Body>
void for_each_memory(const BasicView<Byte>& x, const Body& body) {
  if (x.size() == 0) return;
  body(std::span<Byte>(x.data, static_cast<size_t>(x.rows) * bytes_of(*x.element, x.stride)),
       false);
  if (!x.has_scales()) return;
  const int64_t scales = x.scale_index(x.rows - 1, x.cols - 1) + 1;
  body(std::span<Byte>(x.scales.data, bytes_of(*x.scales.element, scales)), true);
  if (x.scales.tensor == nullptr) return;
  body(std::span<Byte>(reinterpret_cast<Byte*>(x.scales.tensor), sizeof(float)), true);
}

/// A message of each of its memories. `kind`: what its elements are.
inline void append_to(const ConstView& x, Traffic kind, int to, std::vector<Outgoing>& out) {
  for_each_memory(x, [&](std::span<const std::byte> bytes, bool is_scale) {
    out.push_back({to, is_scale ? Traffic::scales : kind, bytes});
  });
}
inline void append_from(const View& x, int from, std::vector<Incoming>& in) {
  for_each_memory(x, [&](std::span<std::byte> bytes, bool /*is_scale*/) {
    in.push_back({from, bytes});
  });
}

}  // namespace ng
