// RMSNorm and LayerNorm over the channels of each token.
#pragma once

#include "nn/parameter.h"

namespace ng {

class NormLayer {
 public:
  /// `bias` may be null; RMSNorm has none. `output` is the tensor id of y.
  struct Parts {
    NormKind kind = NormKind::rms;
    Parameter* gain = nullptr;
    Parameter* bias = nullptr;
    uint32_t output = 0;
    float eps = 1e-5f;
  };
  explicit NormLayer(const Parts& parts) : parts_(parts) {}

  [[nodiscard]] uint32_t output() const { return parts_.output; }

  /// `amax`: of y, for who reads it.
  void forward(Run& run, const View& y, const ConstView& x, const AmaxSlot& amax = {}) const;
  /// The output as GEMMs read it. `first_row`: where x begins in a whole, for the draws.
  [[nodiscard]] Source source(Run& run, const ConstView& x, const AmaxSlot& amax,
                              int64_t first_row = 0) const;
  /// dx = dresidual + (dy through the norm); dresidual or dy may be dx itself. `amax`: of dx.
  void backward(Run& run, const View& dx, const ConstView& dresidual, const ConstView& dy,
                const ConstView& x, const AmaxSlot& amax = {}) const;

 private:
  [[nodiscard]] ReadableWeight read_bias(Run& run) const {
    return parts_.bias != nullptr ? readable_vector(run, *parts_.bias) : ReadableWeight{};
  }
  Parts parts_;
};

}  // namespace ng
