#include "cli/models/memory_on_model.h"

#include "base/json.h"
#include "cli/output.h"
#include "report/memory_text.h"
#include "run/backends.h"
#include "train/metrics.h"

namespace ng::cli {

MemoryOnModel memory_on_model(const Recipe& recipe, StepFlags step, const MachineFlags& machine) {
  const ModelConfig config = step.config();
  const auto backend = make_backend(machine.backend, machine.use());
  const StepSettings settings{
      .sequences = step.batch, .length = step.length, .micros = 1, .optimizer = {}};
  MemoryOnModel memory{
      .plan = plan_memory(*backend, config, recipe, RecomputePolicy::none, settings),
      .fp32 = plan_memory_in_fp32(*backend, config, RecomputePolicy::none, settings)};
  for (const ParameterSpec& spec : parameter_table(config))
    memory.parameters += spec.rows * spec.cols;
  return memory;
}

Json json_of(const MemoryOnModel& memory) {
  return memory_event(memory.plan, memory.fp32, memory.parameters);
}

std::string text_of(const MemoryOnModel& memory) {
  Table table(report::memory_heading());
  for (std::vector<std::string>& row :
       report::memory_rows(memory.plan, memory.fp32, memory.parameters))
    table.row(std::move(row));
  return table.text();
}

}  // namespace ng::cli
