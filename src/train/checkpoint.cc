#include "train/checkpoint.h"

#include <fmt/ranges.h>

#include <span>
#include <vector>

#include "base/json.h"
#include "io/safetensors.h"

namespace ng {
namespace {

constexpr std::string_view kTensorsFile = "state.safetensors";
constexpr std::string_view kIdentityFile = "run.json";
constexpr size_t kMaxIdentityBytes = 1 << 20;

struct NamedView {
  std::string name;
  View view;
};

std::string weight_name(const Parameter& parameter) { return "weight." + parameter.spec.name; }

void add_delayed(std::vector<NamedView>& state, Linear& linear, OperandRole role) {
  const DelayedScale& scale = linear.delayed(role);
  if (scale.history == nullptr) return;
  const std::string name = fmt::format("scale.{}.{}", linear.name(), name_of(role));
  const int64_t length = linear.history_length(role);
  state.push_back({name + ".encode", {scale.encode_scale, 1, 1, 1}});
  state.push_back({name + ".history", {scale.history, 1, length, length}});
}

// Every tensor that outlives a step, by name.
std::vector<NamedView> state_of(Model& model) {
  std::vector<NamedView> state;
  for (const Parameter& p : model.parameters()) {
    state.push_back({weight_name(p), p.value});
    state.push_back({"moment1." + p.spec.name, p.moment1});
    state.push_back({"moment2." + p.spec.name, p.moment2});
  }
  for (Linear* linear : model.linears())
    for (size_t role = 0; role < kOperandRoles; ++role)
      add_delayed(state, *linear, static_cast<OperandRole>(role));
  return state;
}

void require_finite(Run& run, const std::vector<NamedView>& state, const std::string& place) {
  for (const NamedView& tensor : state) {
    const uint64_t bad = run.count_nonfinite(tensor.view);
    if (bad == 0) continue;
    throw Error({.place = place,
                 .key = tensor.name,
                 .problem = fmt::format("{} values are not finite", bad),
                 .remedy = "nothing was written; what was saved before is whole"});
  }
}

Json identity_json(int64_t step, const RunIdentity& identity) {
  return {{"step", step},
          {"seed", identity.seed},
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
  require_same_model(saved, identity.model);
  require_same(saved, mine, "tensor_names", "model");
  if (saved.at("recipe") != identity.older_recipe) require_same(saved, mine, "recipe", "recipe");
  require_same(saved, mine, "data", "text and tokenizer");
  require_same(saved, mine, "batch", "train.batch, model.context and train.accumulate");
  return differing_settings(saved, identity);
}

void read_into(const io::Safetensors& file, const NamedView& tensor) {
  const io::SafetensorsEntry& entry = file.at(tensor.name);
  const std::vector<int64_t> shape = {tensor.view.rows, tensor.view.cols};
  if (entry.dtype != "F32" || entry.shape != shape)
    throw Error({.place = file.path(),
                 .key = tensor.name,
                 .problem = fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", ")),
                 .remedy = fmt::format("F32 [{}]", fmt::join(shape, ", "))});
  const auto values = static_cast<size_t>(tensor.view.size());
  entry.read(0, std::as_writable_bytes(std::span(tensor.view.data, values)));
}

}  // namespace

void save_checkpoint(const std::string& folder, int64_t step, Run& run, Model& model,
                     const RunIdentity& identity, int keep) {
  const std::vector<NamedView> state = state_of(model);
  require_finite(run, state, folder);
  io::CheckpointWriter writer(folder, step);
  std::vector<io::SafetensorsTensor> tensors;
  for (const NamedView& tensor : state)
    tensors.push_back({tensor.name, "F32", {tensor.view.rows, tensor.view.cols}, tensor.view.data});
  io::write_safetensors(writer.path_of(kTensorsFile), tensors);
  writer.write_text(kIdentityFile, json_text(identity_json(step, identity), 2) + "\n");
  writer.publish();
  set_newer_aside(folder, step);
  io::prune_checkpoints(folder, keep);
}

std::vector<std::string> restore_checkpoint(const io::CheckpointEntry& checkpoint, Model& model,
                                            const RunIdentity& identity) {
  const std::vector<std::string> differences =
      check_identity(join_path(checkpoint.path, kIdentityFile), checkpoint.step, identity);
  const io::Safetensors file(join_path(checkpoint.path, kTensorsFile));
  for (const NamedView& tensor : state_of(model)) read_into(file, tensor);
  return differences;
}

void read_checkpoint_weights(const io::CheckpointEntry& checkpoint, Model& model) {
  io::verify_checkpoint(checkpoint);
  const std::string identity = join_path(checkpoint.path, kIdentityFile);
  const Json json = read_json_file(identity, kMaxIdentityBytes);
  require_step(JsonObject(json, identity), checkpoint.step);
  const io::Safetensors file(join_path(checkpoint.path, kTensorsFile));
  for (const Parameter& p : model.parameters()) read_into(file, {weight_name(p), p.value});
}

}  // namespace ng
