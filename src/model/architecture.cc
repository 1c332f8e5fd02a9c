#include "model/architecture.h"

#include <array>

#include "recipe/layer_names.h"

namespace ng {
namespace {

constexpr std::array<const ArchitectureParts*, 5> kArchitectures = {&kGpt2, &kLlama, &kMistral,
                                                                    &kQwen2, &kQwen3};

}  // namespace

const ArchitectureParts& parts_of(Architecture architecture) {
  for (const ArchitectureParts* parts : kArchitectures)
    if (parts->architecture == architecture) return *parts;
  throw InternalError("an architecture without a row");
}

const ArchitectureParts* find_architecture(std::string_view name) {
  for (const ArchitectureParts* parts : kArchitectures)
    if (parts->name == name) return parts;
  return nullptr;
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const ArchitectureParts* parts : kArchitectures) names.push_back(parts->name);
  return names;
}

std::vector<std::string_view> linears_of_block(const ArchitectureParts& parts) {
  std::vector<std::string_view> names(parts.projections.begin(), parts.projections.end());
  names.push_back(layers::kAttnOut);
  names.insert(names.end(), parts.mlp_inputs.begin(), parts.mlp_inputs.end());
  names.push_back(layers::kDown);
  return names;
}

std::vector<ParameterSpec> parameter_table(const ModelConfig& config) {
  return parts_of(config.architecture).parameters(config);
}

}  // namespace ng
