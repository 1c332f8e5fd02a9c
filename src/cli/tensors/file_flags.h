// Flags of commands that do to a tensor of a file what training does to one of a model.
#pragma once

#include <string>
#include <vector>

#include "cli/shared_flags.h"
#include "tools/tensor_input.h"

namespace ng::cli {

struct FileFlags {
  std::string in, out, recipe;
  MachineFlags machine;
  bool json = false;
  std::string weight, direction;
  std::vector<std::string> grads;

  /// IN, which holds `tensors`, OUT and --recipe.
  void declare(Flags flags, const std::string& tensors);
  /// --weight, --grad and --direction: which tensors of IN are meant. `several`:
  /// "steps", of which each has a gradient; empty: there is one.
  void declare_weight(Flags flags);
  void declare_grad(Flags flags, const std::string& several);
  void declare_direction(Flags flags);
  /// That of --recipe. Throws Error where a pattern of it means no layer of any model.
  [[nodiscard]] Recipe read_recipe() const;
  /// --backend, --threads and --json.
  void declare_machine(Flags flags, const std::string& json_help);
  /// The settings with the machine's flags in them.
  template <class Settings>
  [[nodiscard]] Settings here(Settings settings) const {
    settings.backend = machine.backend;
    settings.threads = machine.use();
    settings.thread_order = machine.thread_order;
    settings.tensors = names();
    return settings;
  }

 private:
  [[nodiscard]] TensorNames names() const;
};

/// A note where a weight lies in its file the other way around.
void note_turned(bool is_turned, const std::string& parameter);

/// A note where a recipe has overrides and none of them means a layer, of a model of so many
/// blocks; 0: it is in the last.
void note_unmet_overrides(const Recipe& recipe, const std::string& layer, int64_t blocks);

/// --step N, from 0: of random keys; --tensor-id N: which tensor of the model's table draws.
void add_step_and_tensor(Flags flags, uint32_t& step, const std::string& step_of_what,
                         uint32_t& tensor);

/// --layer NAME, which `of_what` says, else that of the weight's name, and --blocks N, by which a
/// recipe's overrides apply.
void add_layer(Flags flags, std::string& layer, const std::string& of_what, int64_t& blocks);

}  // namespace ng::cli
