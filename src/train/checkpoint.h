// What a checkpoint holds: everything that the next step depends on. [design: "Nothing is lost"]
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/checkpoint_files.h"
#include "model/model.h"
#include "train/state_files.h"

namespace ng {

/// What must be the same for a resumed run to go on where it was; a mismatch is an Error.
struct RunIdentity {
  uint64_t seed = 0;
  uint64_t twin = 0;
  Json model;                 ///< its configuration, as in config.json
  std::string recipe;         ///< Recipe::hash()
  std::string older_recipe;   ///< hash_of_all_keys(), which older checkpoints have in its place
  std::string data;           ///< checksum of what it learns from
  std::string reference;      ///< checksum of the weights that a reference was read from
  std::string batch;          ///< "16 x 128 x 1": sequences, their length, micro-batches
  uint64_t tensor_names = 0;  ///< hash of the model's TensorTable
  /// RunConfig::update_settings; these may differ, and the user hears of it.
  std::map<std::string, std::string> settings;
  /// The recipe itself, for what an Error says of it.
  std::optional<Recipe> whole_recipe = {};
  /// A checkpoint may be of a recipe of another name.
  bool takes_other_recipe = false;
  /// TrainingData::older_checksum(), which older checkpoints have in the place of `data`.
  std::function<std::string()> older_data = {};
};

/// Writes `folder`/step-NNNNNNNN with all that the run's register marks as saved, each tensor as it
/// is stored, after `step` steps, then sets later ones aside and removes all but the `keep` newest.
/// Called by all ranks, each of which writes a file with the rows that it owns. Throws Error on
/// all, and writes nothing, where a value is not finite or a file cannot be written.
void save_checkpoint(const std::string& folder, int64_t step, Run& run, const RunIdentity& identity,
                     int keep);

/// What the run was that saved a checkpoint, for who goes on in its folder with another program: of
/// the recipe the hash alone. Throws Error where that cannot be read.
[[nodiscard]] RunIdentity identity_of_checkpoint(const io::CheckpointEntry& checkpoint);

/// Throws Error where a checkpoint belongs to another run, of which it reads nothing else.
void require_checkpoint_of(const io::CheckpointEntry& checkpoint, const RunIdentity& identity);

/// What a checkpoint says of the run that saved it.
struct SavedRun {
  std::map<std::string, std::string> settings;  ///< as RunIdentity has them
  std::vector<std::string> differences;         ///< a sentence for each that is another now
  std::optional<Recipe> other_recipe = {};      ///< that it had, where this run has another
};

/// Restores all that is saved, but nothing of another recipe, whose state is to be carried over.
/// The model must be in the phase of the last step done. Throws Error where the checkpoint belongs
/// to another run.
SavedRun restore_checkpoint(const io::CheckpointEntry& checkpoint, Run& run,
                            const RunIdentity& identity);

/// The micro-batches of a step of the run that saved it, over all ranks. Throws Error where that
/// cannot be read.
[[nodiscard]] int64_t micros_of_checkpoint(const io::CheckpointEntry& checkpoint);

/// Which recipe the run had that saved the checkpoint in a folder. Throws Error where that cannot
/// be read.
[[nodiscard]] std::string recipe_hash_of(const std::string& folder);
/// That hash is Recipe::hash(), or of an older checkpoint hash_of_all_keys().
[[nodiscard]] bool is_hash_of(const Recipe& recipe, const std::string& hash);

/// The weights alone, for a look at a run in the numbers of any recipe. Throws Error where the
/// checkpoint is damaged or holds another model.
void read_checkpoint_weights(const io::CheckpointEntry& checkpoint, Run& run);

/// The recipe that a checkpoint in `<run>/checkpoints` was saved with, from the checkpoint; of
/// older ones from the run's run.toml, where that has the recipe with the checkpoint's hash. None
/// where neither says it.
[[nodiscard]] std::optional<Recipe> recipe_of_checkpoint(const std::string& folder);

}  // namespace ng
