// A model of another framework as the trainer has it: names, tensor ids, checkpoints.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/json.h"
#include "bind.h"
#include "io/checkpoint_files.h"
#include "io/hf/folder.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "optimizer_settings.h"
#include "recipe/layer_names.h"
#include "run/backends.h"
#include "state_name.h"
#include "train/checkpoint.h"
#include "train/memory_plan.h"
#include "train/run_files.h"
#include "train/run_model.h"

namespace ng::python {
namespace {

using OutBytes = nb::ndarray<nb::pytorch, uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ModelConfig config_of(const std::string& config_json) {
  return io::parse_hf_config(Json::parse(config_json), "model.config");
}

/// The tensor that a linear layer reads.
std::string input_of(std::string_view layer) {
  constexpr std::array kReads = {
      std::pair(layers::kQkv, layers::kNorm1),    std::pair(layers::kQ, layers::kNorm1),
      std::pair(layers::kK, layers::kNorm1),      std::pair(layers::kV, layers::kNorm1),
      std::pair(layers::kAttnOut, layers::kAttn), std::pair(layers::kGate, layers::kNorm2),
      std::pair(layers::kUp, layers::kNorm2),     std::pair(layers::kDown, layers::kMlpAct)};
  const layers::Place place = layers::place_of(layer);
  if (place.block < 0) return std::string(layers::kNorm);
  const auto* const found =
      std::ranges::find(kReads, place.part, &std::pair<std::string_view, std::string_view>::first);
  NG_CHECK(found != kReads.end(), layer);
  return layers::in_block(place.block, found->second);
}

/// Its parameters, by what transformers calls them, and its linear layers with the tensor ids of
/// their draws, as a recipe trains it.
nb::dict model_tensors(const std::string& config_json, const Recipe& recipe) {
  Json parameters = Json::array(), linears = Json::array();
  as_call([&] {
    const std::unique_ptr<Backend> backend = make_backend("cpu", {1});
    look_at_planned(*backend, config_of(config_json), recipe, [&](const Model& model) {
      for (const Parameter& parameter : model.parameters())
        parameters.push_back({{"name", parameter.spec.name},
                              {"hf_name", parameter.spec.hf_name},
                              {"id", parameter.id},
                              {"is_vector", parameter.spec.is_vector}});
      for (Linear* const linear : model.linears())
        linears.push_back({{"name", linear->name()},
                           {"weight_id", linear->weight().id},
                           {"input_id", model.tensors().find(input_of(linear->name()))},
                           {"output_id", linear->output()}});
    });
  });
  return dict_of({{"parameters", parameters}, {"layers", linears}});
}

/// The checkpoint that a path means: itself, or the newest whole one of a run's folder.
io::CheckpointEntry checkpoint_at(const std::string& path,
                                  const std::function<void(const std::string&)>& damaged) {
  const auto parent = path.substr(0, path.find_last_of('/') + 1);
  for (const io::CheckpointEntry& entry : io::list_checkpoints(parent.empty() ? "." : parent))
    if (entry.path == path || join_path(parent.empty() ? "." : parent, path) == entry.path) {
      io::verify_checkpoint(entry);
      return entry;
    }
  const std::string folder = join_path(path, kCheckpointsFolder);
  if (const auto newest = io::newest_whole_checkpoint(folder, damaged)) return *newest;
  throw Error({.place = path,
               .key = "",
               .problem = "has no checkpoint",
               .remedy = "a run's folder, or a folder of its checkpoints"});
}

/// All that a checkpoint holds of a model that one process trains: a place for values on their way
/// between a framework and files, as large as what persists of the model.
class TrainedState {
 public:
  TrainedState(const std::string& config_json, const Recipe& recipe, uint64_t seed,
               const nb::dict& settings, int64_t threads)
      : recipe_(recipe),
        run_(make_backend("cpu", threads_of(threads)), seed),
        model_(run_, config_of(config_json), recipe, RecomputePolicy::none) {
    const std::unique_ptr<Optimizer> optimizer =
        make_optimizer(recipe.settings(0).optimizer, optimizer_settings_of(settings));
    for (Parameter* parameter : model_.owned()) optimizer->claim(run_, *parameter);
    rows_ = saved_rows(run_, false);
  }

  /// Of each tensor: whose it is, what of that, and its bytes:
  /// ("blocks.0.attn.q.weight", "moment1.float32", 4096).
  [[nodiscard]] std::vector<std::tuple<std::string, std::string, size_t>> rows() const {
    std::vector<std::tuple<std::string, std::string, size_t>> list;
    for (const Persistent* row : rows_) {
      NG_CHECK(row->spec.whole_rows == 0, row->spec.name);
      list.emplace_back(row->spec.owner, state_name(row->spec), row->view.bytes());
    }
    return list;
  }
  void get(size_t index, const OutBytes& bytes) const {
    const View& view = view_of(index, bytes);
    run_.backend().download(bytes.data(), view.data, bytes.size());
  }
  void put(size_t index, const OutBytes& bytes) {
    const View& view = view_of(index, bytes);
    run_.backend().upload(view.data, bytes.data(), bytes.size());
  }

  /// Reads a checkpoint. Returns its step and what the user should know.
  std::pair<int64_t, std::vector<std::string>> load(const std::string& path) {
    const Unlocked unlocked;
    return as_call([&] {
      std::vector<std::string> notes;
      const io::CheckpointEntry entry = checkpoint_at(path, [&](const std::string& why) {
        notes.push_back("passed over a damaged checkpoint: " + why);
      });
      const RunIdentity identity = identity_of_my_draws(entry);
      (void)restore_checkpoint(entry, run_, as_mine(identity));
      return std::pair(entry.step, notes);
    });
  }
  /// Writes one into a run's folder, which is made where it is missing. Returns its path.
  std::string save(const std::string& folder, int64_t step, int keep) {
    const Unlocked unlocked;
    return as_call([&] {
      const NewFolders made(folder);
      const FolderLock lock(folder);
      const std::string checkpoints = join_path(folder, kCheckpointsFolder);
      const auto newest = io::newest_whole_checkpoint(checkpoints, [](const std::string&) {});
      if (newest && newest->step > step)
        throw Error({.place = newest->path,
                     .key = "step",
                     .problem = fmt::format("is of a later step than {}", step),
                     .remedy = "another folder, or to go on from there by load_checkpoint"});
      const RunIdentity identity = as_mine(newest ? identity_of_my_draws(*newest) : RunIdentity{});
      if (newest) require_checkpoint_of(*newest, identity);
      save_checkpoint(checkpoints, step, run_, identity, keep);
      return io::list_checkpoints(checkpoints).front().path;
    });
  }

 private:
  [[nodiscard]] const View& view_of(size_t index, const OutBytes& bytes) const {
    const View& view = rows_.at(index)->view;
    NG_CHECK(bytes.size() == view.bytes(), bytes.size(), view.bytes());
    return view;
  }
  /// Throws Error where the run draws otherwise than this model.
  [[nodiscard]] RunIdentity identity_of_my_draws(const io::CheckpointEntry& entry) const {
    RunIdentity identity = identity_of_checkpoint(entry);
    if (identity.seed != run_.seed())
      throw Error(
          {.place = entry.path,
           .key = "seed",
           .problem = fmt::format("{}, but the model draws by {}", identity.seed, run_.seed()),
           .remedy = fmt::format("convert(..., seed={})", identity.seed)});
    if (identity.twin != 0)
      throw Error(
          {.place = entry.path,
           .key = "twin",
           .problem = fmt::format("{}, but the model draws by its seed alone", identity.twin),
           .remedy = "a run without twin"});
    return identity;
  }
  /// Of text, batch and settings as they were, of the rest this model's.
  [[nodiscard]] RunIdentity as_mine(RunIdentity identity) const {
    identity.seed = run_.seed();
    identity.model = model_identity(model_.config());
    identity.recipe = recipe_.hash();
    identity.older_recipe = recipe_.hash_of_all_keys();
    identity.tensor_names = model_.tensors().hash();
    identity.whole_recipe = recipe_;
    return identity;
  }

  Recipe recipe_;
  Run run_;
  Model model_;
  std::vector<const Persistent*> rows_;
};

}  // namespace

void add_trained_model(nb::module_& module) {
  module.def("model_tensors", model_tensors, "config_json"_a, "recipe"_a);
  nb::class_<TrainedState>(module, "TrainedState")
      .def(
          "__init__",
          [](TrainedState* self, const std::string& config_json, const Recipe& recipe,
             uint64_t seed, const nb::dict& settings, int64_t threads) {
            as_call([&] { new (self) TrainedState(config_json, recipe, seed, settings, threads); });
          },
          "config_json"_a, "recipe"_a, "seed"_a, "settings"_a, "threads"_a)
      .def("rows", &TrainedState::rows)
      .def("get", &TrainedState::get, "index"_a, "out"_a)
      .def("put", &TrainedState::put, "index"_a, "given"_a)
      .def("load", &TrainedState::load, "path"_a)
      .def("save", &TrainedState::save, "folder"_a, "step"_a, "keep"_a);
}

}  // namespace ng::python
