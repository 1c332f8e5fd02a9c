#include "tools/wire_gradient.h"

#include "backend/backend_memory.h"
#include "backend/gradient_scale.h"
#include "comm/gradient_pieces.h"

namespace ng {

void store_for_wire(Backend& backend, std::span<const float> gradient, const RandomKey& key,
                    const AutoScale& scale, float amax, const Stored& wire) {
  TemporaryTensor x(backend, wire.view.rows, wire.view.cols);
  x.upload(gradient);
  const BackendMemory shared(backend, sizeof amax), auto_scale(backend, sizeof scale);
  backend.upload(shared.data(), &amax, sizeof amax);
  backend.upload(auto_scale.data(), &scale, sizeof scale);
  RandomKey of_wire = key;
  of_wire.purpose = Purpose::gradient_wire;
  backend.execute(StoreGradient{.y = wire,
                                .x = x.view(),
                                .key = of_wire,
                                .scale = reinterpret_cast<const AutoScale*>(auto_scale.data()),
                                .amax = ranks_share_scale(wire.cast) ? shared.floats() : nullptr});
}

AutoScale moved_scale(const GradientRecipe& gradient, AutoScale scale, uint64_t saturated,
                      int64_t values, float& good_steps) {
  if (gradient.auto_scale)
    move_auto_scale({.scale = &scale,
                     .codes = {},
                     .threshold = gradient.auto_scale_delta,
                     .window = gradient.growth_interval,
                     .good_steps = gradient.counts_good_steps() ? &good_steps : nullptr,
                     .growth_after = gradient.auto_scale_growth_after},
                    static_cast<int64_t>(saturated), values);
  return scale;
}

}  // namespace ng
