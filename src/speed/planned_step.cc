#include "speed/planned_step.h"

#include "backend/plan_backend.h"

namespace ng {
namespace {

constexpr uint64_t kPlanSeed = 1;

class Listener final : public PlanBackend {
 public:
  using Hear = std::function<void(const Operation&)>;
  Listener(const Backend& backend, const Hear& hear) : PlanBackend(backend), hear_(hear) {}
  void execute(const Operation& operation) override {
    if (listens_) hear_(operation);
  }
  void listen() { listens_ = true; }

 private:
  const Hear& hear_;
  bool listens_ = false;
};

}  // namespace

MemoryPlan plan_step(const Backend& backend, const ModelConfig& config, const Recipe& recipe,
                     const BenchShape& shape, const std::function<void(const Operation&)>& hear) {
  auto made = std::make_unique<Listener>(backend, hear);
  Listener& listener = *made;
  Run run(std::move(made), kPlanSeed);
  Model model(run, config, recipe, RecomputePolicy::none);
  Trainer trainer(run, model, recipe,
                  {.sequences = shape.batch, .length = shape.length, .micros = 1, .optimizer = {}});
  trainer.set_phase(shape.phase);
  listener.listen();
  (void)trainer.step(0, kBenchRate);
  return trainer.memory();
}

}  // namespace ng
