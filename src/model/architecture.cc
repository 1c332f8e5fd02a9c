#include "model/architecture.h"

#include <array>

namespace ng {
namespace {

constexpr std::array<const ArchitectureParts*, 2> kArchitectures = {&kGpt2, &kLlama};

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

std::vector<ParameterSpec> parameter_table(const ModelConfig& config) {
  return parts_of(config.architecture).parameters(config);
}

}  // namespace ng
