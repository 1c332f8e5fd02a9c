// What bounds a training step on a card: the time of its arithmetic at the rates of the card's
// units plus that of the bytes it streams at the rate of a copy.                          [gpu.md,
// §6]
//   seconds = Σ over routes of products' flops / R_route + attention's / R_attention + bytes /
//   R_copy
#pragma once

#include <array>
#include <optional>
#include <string>

#include "backend/cuda/route.h"
#include "base/json_fwd.h"
#include "speed/step_speed.h"

namespace ng {

/// Of products, by the route that a card takes for them.
using ByRoute = std::array<double, cuda::kRoutes>;

/// What a step does.
struct StepWork {
  ByRoute product_flops{};
  double attention_flops = 0;  ///< forward and backward, without scores that are computed again
  double bytes = 0;            ///< that all other operations stream
  int64_t tokens = 0;
};

/// On a card, the head among its products. `backend` and `shape` as in plan_step.
[[nodiscard]] StepWork work_of_step(const Backend& backend, const cuda::Card& card,
                                    const ModelConfig& config, const Recipe& recipe,
                                    const BenchShape& shape);

/// What a card does in a second.
struct CardRates {
  std::string name;
  int sm = 0;
  ByRoute products{};    ///< FLOP/s; 0: not measured
  double attention = 0;  ///< the same, which nobody measured: in proportion to BF16's products
  double copy = 0;       ///< bytes, those read and those written
};

/// As benchmarks/card/probe found them: of each route the highest. Throws Error at `place`.
[[nodiscard]] CardRates rates_of_probe(const Json& probe, const std::string& place);

/// Seconds of a step by what bounds it.
struct StepLimit {
  ByRoute products{};
  double attention = 0, streams = 0;
  [[nodiscard]] double seconds() const;
};
/// None where a rate is not known of a route that the step takes.
[[nodiscard]] std::optional<StepLimit> limit_of(const StepWork& work, const CardRates& rates);

/// {"tokens_per_second": ..., "seconds": {"bf16": ..., "attention": ..., "streams": ...},
/// "work": ..., "rates": ..., "assumed": [the rates that are not measured]}; null: no limit.
[[nodiscard]] Json limit_json(const StepWork& work, const CardRates& rates);

}  // namespace ng
