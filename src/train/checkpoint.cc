#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "train/carry_over.h"
#include "train/run_files.h"

namespace ng {
namespace {

constexpr std::string_view kIdentityFile = "run.json";
constexpr size_t kMaxIdentityBytes = 1 << 24;
constexpr const char* kRecipeKey = "recipe_toml";

// The tensor of this rank that is not finite; nothing where all are.
std::string nonfinite_state(Run& run) {
  for (const bool own : {false, true})
    for (const Persistent* row : saved_rows(run, own))
      if (const uint64_t bad = run.count_nonfinite(row->view); bad > 0)
        return fmt::format("{}: {} values are not finite", row->spec.name, bad);
  return "";
}

void require_finite(Run& run, const std::string& place) {
  const std::string problem = first_text(run.ranks().world(), nonfinite_state(run));
  if (problem.empty()) return;
  throw SharedFailure({.place = place,
                       .key = "",
                       .problem = problem,
                       .remedy = "nothing was written; what was saved before is whole"});
}

Json identity_json(int64_t step, const RunIdentity& identity) {
  Json json = {{"step", step},
               {"seed", identity.seed},
               {"twin", identity.twin},
               {"model", identity.model},
               {"recipe", identity.recipe},
               {"data", identity.data},
               {"reference", identity.reference},
               {"batch", identity.batch},
               {"tensor_names", fmt::format("{:016x}", identity.tensor_names)},
               {"settings", identity.settings}};
  if (identity.whole_recipe) json[kRecipeKey] = identity.whole_recipe->resolved_toml();
  return json;
}

[[noreturn]] void refuse_other(const JsonObject& saved, std::string_view key,
                               const std::string& problem, const std::string& what) {
  saved.refuse(key, problem,
               fmt::format("the same {} to resume, or another --out to start anew", what));
}

[[noreturn]] void refuse_other(const JsonObject& saved, std::string_view key, const Json& before,
                               const Json& now, const std::string& what) {
  refuse_other(saved, key, fmt::format("{}, but this run has {}", brief(before), brief(now)), what);
}

void require_same(const JsonObject& saved, const Json& mine, std::string_view key,
                  const std::string& what) {
  const Json& now = mine.at(std::string(key));
  if (saved.at(key) != now) refuse_other(saved, key, saved.at(key), now, what);
}

// Names the key that differs; null is a value there.
void require_same_model(const JsonObject& saved, const Json& mine) {
  const JsonObject model = saved.object("model");
  for (const auto& [key, now] : mine.items()) {
    const Json before = model.value().value(key, Json());
    if (before != now) refuse_other(model, key, before, now, "model");
  }
}

// The names and what differs, where it is known what the run was trained with. Returns that where
// the run may go on with another.
std::optional<Recipe> check_recipe(const JsonObject& saved, const RunIdentity& mine,
                                   const std::string& folder) {
  const Json& before = saved.at("recipe");
  if (before == mine.recipe || before == mine.older_recipe) return {};
  std::optional<Recipe> trained = recipe_of_checkpoint(folder);
  if (!mine.whole_recipe) refuse_other(saved, "recipe", before, mine.recipe, "recipe");
  const Recipe& now = *mine.whole_recipe;
  if (!trained)
    refuse_other(saved, "recipe",
                 fmt::format("another one, which {} does not tell, but this run has {}", kRunFile,
                             on_one_line(now.name())),
                 "recipe");
  const std::string difference = difference_text(*trained, now);
  if (!mine.takes_other_recipe)
    saved.refuse("recipe", difference,
                 "the same recipe to resume, --recipe NAME to go on in the numbers of another, or "
                 "another --out to start anew");
  if (trained->name() == now.name())
    saved.refuse("recipe", difference,
                 "the same recipe to resume, or what it is now under another name to go on in its "
                 "numbers");
  if (const std::string keys = keys_without_meaning(*trained, now); !keys.empty())
    saved.refuse("recipe",
                 fmt::format("{}, but this run has {}, which cannot go on from states of the "
                             "former: {}",
                             on_one_line(trained->name()), on_one_line(now.name()), keys),
                 "a recipe with the same values of these keys, or another --out to start anew");
  return trained;
}

SavedRun saved_run(const JsonObject& saved, const RunIdentity& identity) {
  SavedRun run;
  const JsonObject settings = saved.object("settings");
  for (const auto& [key, value] : identity.settings) {
    if (!settings.has(key)) continue;  // of a version that did not note it
    const std::string before = run.settings[key] = settings.text(key);
    if (before != value)
      run.differences.push_back(fmt::format("{} = {}, but {} until here", key, value, before));
  }
  return run;
}

// The folder's name, the manifest and this file say which step it is.
void require_step(const JsonObject& saved, int64_t step) {
  (void)saved.integer("step", step, step);
}

// Returns what may differ.
SavedRun check_identity(const io::CheckpointEntry& checkpoint, const RunIdentity& identity) {
  const std::string path = join_path(checkpoint.path, kIdentityFile);
  const int64_t step = checkpoint.step;
  const Json json = read_json_file(path, kMaxIdentityBytes);
  const JsonObject saved(json, path);
  require_step(saved, step);
  const Json mine = identity_json(step, identity);
  require_same(saved, mine, "seed", "seed");
  if (saved.has("twin") || identity.twin != 0) require_same(saved, mine, "twin", "twin");
  require_same_model(saved, identity.model);
  std::optional<Recipe> other = check_recipe(saved, identity, checkpoint.path);  // tells of tensors
  require_same(saved, mine, "tensor_names", "model");
  const bool same_data = saved.at("data") == identity.data ||
                         (identity.older_data && saved.at("data") == identity.older_data());
  if (!same_data) require_same(saved, mine, "data", "text and tokenizer");
  if (saved.has("reference") || !identity.reference.empty())
    require_same(saved, mine, "reference", "weights in model.init");
  require_same(saved, mine, "batch", "train.batch and model.context");
  SavedRun run = saved_run(saved, identity);
  run.other_recipe = std::move(other);
  return run;
}

}  // namespace

// Every rank writes what it alone has; rank 0 what all have, and makes the checkpoint appear when
// all files are there.
void save_checkpoint(const std::string& folder, int64_t step, Run& run, const RunIdentity& identity,
                     int keep) {
  require_finite(run, folder);
  Comm& comm = run.ranks().world();
  std::optional<io::CheckpointWriter> writer;
  on_all(comm, [&] {
    if (comm.rank() == 0) writer.emplace(folder, step);
  });
  const std::string place = text_of(comm, 0, writer ? writer->folder() : "");
  on_all(comm, [&] {
    if (writer) write_state(run, rows_to_write(run, false), join_path(place, kStateFile));
    if (comm.ranks() > 1)
      write_state(run, rows_to_write(run, true),
                  join_path(place, rank_state_file(comm.rank(), comm.ranks())));
  });
  on_all(comm, [&] {
    if (!writer) return;
    writer->write_text(kIdentityFile, json_text(identity_json(step, identity), 2) + "\n");
    writer->publish();
    io::set_later_aside(folder, step);
    io::prune_checkpoints(folder, keep);
  });
}

void require_checkpoint_of(const io::CheckpointEntry& checkpoint, const RunIdentity& identity) {
  (void)check_identity(checkpoint, identity);
}

SavedRun restore_checkpoint(const io::CheckpointEntry& checkpoint, Run& run,
                            const RunIdentity& identity) {
  SavedRun saved = check_identity(checkpoint, identity);
  if (saved.other_recipe) return saved;
  const StateFiles files(checkpoint.path);
  for (const bool own : {false, true})
    for (const Persistent* row : saved_rows(run, own)) files.read_into(run, *row);
  return saved;
}

RunIdentity identity_of_checkpoint(const io::CheckpointEntry& checkpoint) {
  const std::string path = join_path(checkpoint.path, kIdentityFile);
  const Json json = read_json_file(path, kMaxIdentityBytes);
  const JsonObject saved(json, path);
  require_step(saved, checkpoint.step);
  const auto text = [&](std::string_view key) { return saved.has(key) ? saved.text(key) : ""; };
  const auto number = [&](std::string_view key) {
    return saved.has(key) ? static_cast<uint64_t>(saved.integer(key, 0, INT64_MAX)) : 0;
  };
  RunIdentity identity{.seed = number("seed"),
                       .twin = number("twin"),
                       .model = saved.at("model"),
                       .recipe = text("recipe"),
                       .older_recipe = text("recipe"),
                       .data = text("data"),
                       .reference = text("reference"),
                       .batch = text("batch"),
                       .settings = {}};
  const JsonObject settings = saved.object("settings");
  for (const auto& [key, value] : settings.value().items())
    identity.settings[key] = settings.text(key);
  return identity;
}

int64_t micros_of_checkpoint(const io::CheckpointEntry& checkpoint) {
  const std::string path = join_path(checkpoint.path, kIdentityFile);
  const Json json = read_json_file(path, kMaxIdentityBytes);
  const JsonObject saved(json, path);
  const std::string batch = saved.text("batch");
  const char* const end = batch.data() + batch.size();
  const char* const number = batch.data() + batch.rfind(' ') + 1;
  int64_t micros = 0;
  const auto [stop, failed] = std::from_chars(number, end, micros);
  if (failed != std::errc() || stop != end || micros < 1)
    saved.refuse("batch", "\"" + batch + "\"", "sequences x tokens x micro-batches");
  return micros;
}

std::string recipe_hash_of(const std::string& folder) {
  const std::string path = join_path(folder, kIdentityFile);
  const Json json = read_json_file(path, kMaxIdentityBytes);
  return JsonObject(json, path).text("recipe");
}

bool is_hash_of(const Recipe& recipe, const std::string& hash) {
  return hash == recipe.hash() || hash == recipe.hash_of_all_keys();
}

void read_checkpoint_weights(const io::CheckpointEntry& checkpoint, Run& run) {
  io::verify_checkpoint(checkpoint);
  const std::string identity = join_path(checkpoint.path, kIdentityFile);
  const Json json = read_json_file(identity, kMaxIdentityBytes);
  require_step(JsonObject(json, identity), checkpoint.step);
  const StateFiles files(checkpoint.path);
  for (const Persistent* row : saved_rows(run, false))
    if (row->spec.kind == MemoryKind::weights) files.read_into(run, *row);
}

std::optional<Recipe> recipe_of_checkpoint(const std::string& folder) {
  const std::string path = join_path(folder, kIdentityFile);
  const std::string run_file = join_path(folder, fmt::format("../../{}", kRunFile));
  if (!is_file(path)) return {};
  const Json json = read_json_file(path, kMaxIdentityBytes);
  const JsonObject saved(json, path);
  std::optional<Recipe> recipe;
  if (saved.has(kRecipeKey))
    recipe = recipe_in(saved.text(kRecipeKey), path);
  else if (is_file(run_file))
    recipe = recipe_of_run_file(run_file);
  return recipe && is_hash_of(*recipe, saved.text("recipe")) ? recipe : std::nullopt;
}

}  // namespace ng
