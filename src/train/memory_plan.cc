#include "train/memory_plan.h"

#include <algorithm>

#include "backend/plan_backend.h"
#include "comm/planned_rank.h"
#include "train/trainer.h"

namespace ng {
namespace {

bool is_of_parameters(MemoryKind kind) {
  return kind == MemoryKind::weights || kind == MemoryKind::master || kind == MemoryKind::moments ||
         kind == MemoryKind::reference;
}

}  // namespace

std::optional<RoleBytes> bytes_by_role(const MemoryPlan& plan) {
  const auto most = [&](MemoryKind kind) { return plan.most[static_cast<size_t>(kind)]; };
  if (most(MemoryKind::reference) == 0) return {};
  return RoleBytes{.policy = most(MemoryKind::weights) + most(MemoryKind::master) +
                             most(MemoryKind::moments) + most(MemoryKind::gradients),
                   .reference = most(MemoryKind::reference)};
}

std::vector<StoredPart> stored_parts(const Run& run) {
  std::vector<StoredPart> parts;
  for (const Persistent& row : run.persistents()) {
    if (!is_of_parameters(row.spec.kind) || row.spec.owner.empty()) continue;
    const std::string name = row.spec.name.substr(0, row.spec.name.find('.'));
    auto part = std::find_if(parts.begin(), parts.end(), [&](const StoredPart& known) {
      return known.name == name && known.kind == row.spec.kind;
    });
    if (part == parts.end())
      part = parts.insert(parts.end(), {.name = name, .kind = row.spec.kind, .elements = {}});
    part->bytes += row.memory.size();
    const bool is_scale = row.spec.name != name + "." + row.spec.owner;
    std::vector<std::string_view>& elements = part->elements;
    const std::string_view element = row.spec.element->short_name;
    if (!is_scale && std::find(elements.begin(), elements.end(), element) == elements.end())
      elements.push_back(element);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const StoredPart& a, const StoredPart& b) { return a.kind < b.kind; });
  return parts;
}

void look_at_planned(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
                     const std::function<void(const Model&)>& look) {
  Run run(std::make_unique<PlanBackend>(backend), 0);
  look(Model(run, model, recipe, RecomputePolicy::none));
}

std::vector<ParameterSpec> planned_parameters(const Backend& backend, const ModelConfig& model,
                                              const Recipe& recipe) {
  std::vector<ParameterSpec> specs;
  look_at_planned(backend, model, recipe, [&](const Model& planned) {
    for (const Parameter& parameter : planned.parameters()) specs.push_back(parameter.spec);
  });
  return specs;
}

MemoryPlan plan_memory(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
                       RecomputePolicy recompute, const StepSettings& settings, int rank,
                       int ranks) {
  const std::unique_ptr<Comm> comm = planned_rank(rank, ranks);
  Run run(std::make_unique<PlanBackend>(backend), 0, 0, comm.get());
  Model planned(run, model, recipe, recompute, weight_gather(settings.determinism));
  std::unique_ptr<Model> reference;
  if (settings.dpo) reference = make_reference(run, planned, recipe, *settings.dpo);
  return Trainer(run, planned, recipe, settings, reference.get()).memory();
}

MemoryPlan plan_memory_in_fp32(const Backend& backend, const ModelConfig& model,
                               RecomputePolicy recompute, const StepSettings& settings) {
  const Recipe fp32 = Recipe::parse("name = \"fp32\"", "fp32");
  StepSettings in_fp32 = settings;
  if (in_fp32.dpo) in_fp32.dpo->reference_storage = {};  // as the policy's
  ModelConfig whole = model;
  whole.lora = {};  // all weights trained
  return plan_memory(backend, whole, fp32, recompute, in_fp32);
}

}  // namespace ng
