// Flags of commands that do to a tensor of a file what training does to one of a model.
#pragma once

#include <string>

#include "cli/shared_flags.h"

namespace ng::cli {

struct FileFlags {
  std::string in, out, recipe;
  MachineFlags machine;
  bool json = false;

  /// IN, which holds `tensors`, OUT and --recipe.
  void declare(Flags flags, const std::string& tensors);
  /// --backend, --threads and --json.
  void declare_machine(Flags flags, const std::string& json_help);
  /// The settings with the machine's flags in them.
  template <class Settings>
  [[nodiscard]] Settings here(Settings settings) const {
    settings.backend = machine.backend;
    settings.threads = machine.use();
    return settings;
  }
};

/// --step N, from 0: of random keys; --tensor-id N: which tensor of the model's table draws.
void add_step_and_tensor(Flags flags, uint32_t& step, const std::string& step_of_what,
                         uint32_t& tensor);

/// --layer NAME, which `of_what` says, and --blocks N, by which a recipe's overrides apply.
void add_layer(Flags flags, std::string& layer, const std::string& of_what, int64_t& blocks);

}  // namespace ng::cli
