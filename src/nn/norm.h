// RMSNorm and LayerNorm over the channels of each token.
#pragma once

#include "nn/parameter.h"

namespace ng {

class Norm {
 public:
  enum class Kind : uint8_t { rms, layer };

  /// `bias` may be null; RMSNorm has none. `output` is the tensor id of y.
  struct Parts {
    Kind kind = Kind::rms;
    Parameter* gain = nullptr;
    Parameter* bias = nullptr;
    uint32_t output = 0;
    float eps = 1e-5f;
    Compute compute = Compute::fp32;
  };
  explicit Norm(const Parts& parts) : parts_(parts) {}

  void set_compute(Compute compute) { parts_.compute = compute; }
  [[nodiscard]] Tensor forward(Run& run, ConstView x) const;
  /// The output as GEMMs read it.
  [[nodiscard]] Source source(Run& run, ConstView x) const {
    return {forward(run, x), parts_.output};
  }
  /// dx = dresidual + (dy through the norm); dresidual may be dx itself.
  void backward(Run& run, View dx, ConstView dresidual, ConstView dy, ConstView x) const;

 private:
  [[nodiscard]] const float* bias() const {
    return parts_.bias != nullptr ? parts_.bias->value.data : nullptr;
  }
  Parts parts_;
};

}  // namespace ng
