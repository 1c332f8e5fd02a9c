// An input of linear layers that forward keeps as the operand of wgrad, in few bits, in place of
// its values, which backward would else make again and quantize.
#pragma once

#include <optional>
#include <span>

#include "nn/linear.h"

namespace ng {

/// The input of layers that share it, from forward to backward.
class KeptInput {
 public:
  /// `tensor`: its id. `from`: what backward would make it of again, as it is kept.
  KeptInput(std::span<const Linear> layers, uint32_t tensor, const Operand& from)
      : layers_(layers), tensor_(tensor), from_(from) {}

  /// Room for the largest magnitude of an x like `like`, where operands that are made in this pass
  /// read it.
  [[nodiscard]] AmaxSlot slot(Run& run, const ConstView& like, bool is_backward) const;

  /// In the forward pass, before GEMMs read x: makes their operands of it and leaves wgrad's on the
  /// run's stack, where it is kept.
  void keep(Run& run, Source& x) const;
  /// In the backward pass, of an x like `like`: takes it off the stack; nothing where it was not
  /// kept.
  [[nodiscard]] std::optional<Source> take(Run& run, const ConstView& like) const;

 private:
  /// By rows and element of what is like x.
  [[nodiscard]] bool is_kept(const Run& run, const ConstView& like) const;

  std::span<const Linear> layers_;
  uint32_t tensor_;
  const Operand& from_;
};

}  // namespace ng
