#include "search/step_time.h"

#include "run/backends.h"
#include "speed/step_speed.h"

namespace ng::search {

double step_seconds(const RunConfig& config, const ModelConfig& model, const Recipe& recipe,
                    Threads threads) {
  Run run(make_backend(config.train.backend, threads), config.seed);
  Model trained(run, model, recipe, config.train.recompute);
  const BenchShape shape{.batch = config.train.batch,
                         .length = config.train.length > 0 ? config.train.length : model.context,
                         .steps = 2,
                         .warmup = 1};
  return bench_steps(run, trained, recipe, shape).median_seconds *
         static_cast<double>(config.train.accumulate);
}

}  // namespace ng::search
