#include "train/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "train/run_files.h"

namespace ng {
namespace {

constexpr std::string_view kIdentityFile = "run.json";
constexpr size_t kMaxIdentityBytes = 1 << 20;

// What the next step depends on, by the register.
std::vector<const Persistent*> state_of(const Run& run) {
  std::vector<const Persistent*> state;
  for (const Persistent& row : run.persistents())
    if (row.spec.is_saved) state.push_back(&row);
  return state;
}

void require_finite(Run& run, const std::string& place) {
  for (const Persistent* row : state_of(run)) {
    const uint64_t bad = run.count_nonfinite(row->view);
    if (bad == 0) continue;
    throw Error({.place = place,
                 .key = row->spec.name,
                 .problem = fmt::format("{} values are not finite", bad),
                 .remedy = "nothing was written; what was saved before is whole"});
  }
}

Json identity_json(int64_t step, const RunIdentity& identity) {
  return {{"step", step},
          {"seed", identity.seed},
          {"twin", identity.twin},
          {"model", identity.model},
          {"recipe", identity.recipe},
          {"data", identity.data},
          {"batch", identity.batch},
          {"tensor_names", fmt::format("{:016x}", identity.tensor_names)},
          {"settings", identity.settings}};
}

// Newer ones are damaged ones that a resume passed over: kept, they would push whole ones out.
void set_newer_aside(const std::string& folder, int64_t step) {
  for (const io::CheckpointEntry& checkpoint : io::list_checkpoints(folder))
    if (checkpoint.step > step) io::set_aside(checkpoint);
}

[[noreturn]] void refuse_other(const JsonObject& saved, std::string_view key, const Json& before,
                               const Json& now, const std::string& what) {
  saved.refuse(key, fmt::format("{}, but this run has {}", brief(before), brief(now)),
               fmt::format("the same {} to resume, or another --out to start anew", what));
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

std::vector<std::string> differing_settings(const JsonObject& saved, const RunIdentity& identity) {
  std::vector<std::string> sentences;
  const JsonObject settings = saved.object("settings");
  for (const auto& [key, value] : identity.settings) {
    if (!settings.has(key)) continue;  // of a version that did not note it
    if (const std::string before = settings.text(key); before != value)
      sentences.push_back(fmt::format("{} = {}, but {} until here", key, value, before));
  }
  return sentences;
}

// The folder's name, the manifest and this file say which step it is.
void require_step(const JsonObject& saved, int64_t step) {
  (void)saved.integer("step", step, step);
}

// Returns what differs and may.
std::vector<std::string> check_identity(const std::string& path, int64_t step,
                                        const RunIdentity& identity) {
  const Json json = read_json_file(path, kMaxIdentityBytes);
  const JsonObject saved(json, path);
  require_step(saved, step);
  const Json mine = identity_json(step, identity);
  require_same(saved, mine, "seed", "seed");
  if (saved.has("twin") || identity.twin != 0) require_same(saved, mine, "twin", "twin");
  require_same_model(saved, identity.model);
  require_same(saved, mine, "tensor_names", "model");
  if (saved.at("recipe") != identity.older_recipe) require_same(saved, mine, "recipe", "recipe");
  require_same(saved, mine, "data", "text and tokenizer");
  require_same(saved, mine, "batch",
               "train.batch, model.context, and ranks times train.accumulate");
  return differing_settings(saved, identity);
}

/// Rows of registered tensors follow one another, each from a byte on.
size_t row_bytes(const View& view) { return bytes_of(*view.element, view.stride); }

/// As what a file shows a tensor: by the dtype of its elements, or as the bytes of its rows where
/// the format has none or rows do not fill their last byte.
struct StoredAs {
  std::string dtype;
  std::vector<int64_t> shape;
};

StoredAs stored_as(const View& view) {
  const std::string dtype(view.element->safetensors);
  if (view.stride == view.cols && !dtype.empty() &&
      io::find_dtype(dtype, "", "").bits == view.element->bits)
    return {dtype, {view.rows, view.cols}};
  return {"U8", {view.rows, static_cast<int64_t>(row_bytes(view))}};
}

constexpr size_t kPieceBytes = size_t{1} << 22;

/// body(offset, bytes) for the pieces of a tensor, a buffer of the host for each.
template <class Body>
void for_pieces(const View& view, const Body& body) {
  const size_t bytes = static_cast<size_t>(view.rows) * row_bytes(view);
  std::vector<std::byte> buffer(std::min(kPieceBytes, bytes));
  for (size_t at = 0; at < bytes; at += buffer.size())
    body(at, std::span(buffer).first(std::min(buffer.size(), bytes - at)));
}

void read_into(Run& run, const io::Safetensors& file, const Persistent& row) {
  const io::SafetensorsEntry& entry = file.at(row.spec.name);
  const StoredAs as = stored_as(row.view);
  if (entry.dtype != as.dtype || entry.shape != as.shape)
    throw Error({.place = file.path(),
                 .key = row.spec.name,
                 .problem = fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", ")),
                 .remedy = fmt::format("{} [{}]", as.dtype, fmt::join(as.shape, ", "))});
  for_pieces(row.view, [&](size_t at, std::span<std::byte> piece) {
    entry.read(at, piece);
    run.upload(row.view.data + at, std::span<const std::byte>(piece));
  });
}

// As they are stored.
void write_state(const Run& run, const std::string& path) {
  std::vector<io::SafetensorsTensor> tensors;
  for (const Persistent* row : state_of(run)) {
    const StoredAs as = stored_as(row->view);
    tensors.push_back({row->spec.name, as.dtype, as.shape, nullptr});
  }
  io::SafetensorsWriter writer(path, tensors);
  for (const Persistent* row : state_of(run))
    for_pieces(row->view, [&](size_t at, std::span<std::byte> piece) {
      run.backend().download(piece.data(), row->view.data + at, piece.size());
      writer.write(piece);
    });
  writer.commit();
}

}  // namespace

void save_checkpoint(const std::string& folder, int64_t step, Run& run, const RunIdentity& identity,
                     int keep) {
  require_finite(run, folder);
  io::CheckpointWriter writer(folder, step);
  write_state(run, writer.path_of(kStateFile));
  writer.write_text(kIdentityFile, json_text(identity_json(step, identity), 2) + "\n");
  writer.publish();
  set_newer_aside(folder, step);
  io::prune_checkpoints(folder, keep);
}

std::vector<std::string> restore_checkpoint(const io::CheckpointEntry& checkpoint, Run& run,
                                            const RunIdentity& identity) {
  const std::vector<std::string> differences =
      check_identity(join_path(checkpoint.path, kIdentityFile), checkpoint.step, identity);
  const io::Safetensors file(join_path(checkpoint.path, kStateFile));
  for (const Persistent* row : state_of(run)) read_into(run, file, *row);
  return differences;
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
  const io::Safetensors file(join_path(checkpoint.path, kStateFile));
  for (const Persistent* row : state_of(run))
    if (row->spec.kind == MemoryKind::weights) read_into(run, file, *row);
}

std::optional<Recipe> recipe_of_checkpoint(const std::string& folder) {
  const std::string run_file = join_path(folder, fmt::format("../../{}", kRunFile));
  if (!is_file(join_path(folder, kIdentityFile)) || !is_file(run_file)) return {};
  const std::string hash = recipe_hash_of(folder);
  std::optional<Recipe> recipe = recipe_of_run_file(run_file);
  return recipe && is_hash_of(*recipe, hash) ? recipe : std::nullopt;
}

}  // namespace ng
