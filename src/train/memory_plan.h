// What training takes of memory, known before step 1: by kind at the peak, and per parameter as
// stored.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "run/run.h"

namespace ng {

struct StepSettings;

/// What a run keeps of its parameters under one name: all their values, carries, masters or one of
/// their states, with the scales.
struct StoredPart {
  std::string name;                       ///< as tensors of checkpoints begin: "weight", "moment1"
  MemoryKind kind = MemoryKind::weights;  ///< weights, master, moments or reference
  std::vector<std::string_view>
      elements;      ///< formats as the table names them, the first used first
  size_t bytes = 0;  ///< as allocated: each tensor a multiple of 64
};

/// Planned memory of the most demanding program.
struct MemoryPlan {
  MemoryByKind bytes{};            ///< live at the peak
  MemoryByKind most{};             ///< of each kind at any time of its training step
  size_t gaps = 0;                 ///< arena bytes no tensor uses at the peak
  size_t total = 0;                ///< sum of `bytes` and `gaps` = what is allocated
  std::vector<StoredPart> stored;  ///< in the order of kinds
};

/// What two models beside each other take, where there are two: the one that is trained its
/// weights, masters, moments and gradients, each at its most; the reference its weights.
struct RoleBytes {
  size_t policy = 0, reference = 0;
};
[[nodiscard]] std::optional<RoleBytes> bytes_by_role(const MemoryPlan& plan);

/// The parts of a run's register that parameters own.
[[nodiscard]] std::vector<StoredPart> stored_parts(const Run& run);

/// Shows a model as a recipe trains it, whose memory is not taken: its parameters, layers and
/// tensor ids.
void look_at_planned(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
                     const std::function<void(const Model&)>& look);

/// What a model trains by a recipe, in its order: what the noise on weights learns comes last.
[[nodiscard]] std::vector<ParameterSpec> planned_parameters(const Backend& backend,
                                                            const ModelConfig& model,
                                                            const Recipe& recipe);

/// The plan of training a model from scratch, without taking its memory: `backend` says what
/// operands and scratch need. Of one of so many ranks.
[[nodiscard]] MemoryPlan plan_memory(const Backend& backend, const ModelConfig& model,
                                     const Recipe& recipe, RecomputePolicy recompute,
                                     const StepSettings& settings, int rank = 0, int ranks = 1);

/// The same of FP32 AdamW, to compare with.
[[nodiscard]] MemoryPlan plan_memory_in_fp32(const Backend& backend, const ModelConfig& model,
                                             RecomputePolicy recompute,
                                             const StepSettings& settings);

}  // namespace ng
