// Updates of parameters over arrays of others: what narrowgauge.torch.optimizer steps by.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>

#include "bind.h"
#include "nn/source.h"
#include "optimizer_settings.h"
#include "run/backends.h"
#include "state_name.h"
#include "tools/tensor_update.h"
#include "updated_parameter.h"

namespace ng::python {
namespace {

/// (r, c) in FP32, rows side by side without gaps, in memory of the runs' backend.
using InMatrix = nb::ndarray<nb::pytorch, const float, nb::ndim<2>, nb::c_contig>;
using OutMatrix = nb::ndarray<nb::pytorch, float, nb::ndim<2>, nb::c_contig>;
using OutBytes = nb::ndarray<nb::pytorch, uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The memory of an optimizer: parameters share a run, whose names are unique, and so its gradient.
class UpdateRuns {
 public:
  /// `device`: of those of this host.
  UpdateRuns(uint64_t seed, int64_t threads, std::string backend, int device)
      : seed_(seed), threads_(threads_of(threads)), backend_(std::move(backend)), device_(device) {}
  UpdateRuns(const UpdateRuns&) = delete;
  UpdateRuns& operator=(const UpdateRuns&) = delete;

  /// One that has no parameter of this name.
  Run& run_for(const std::string& parameter) {
    for (Entry& entry : runs_)
      if (entry.names.insert(parameter).second) return entry.run;
    Entry& entry = runs_.emplace_back(make_backend(backend_, threads_, 0, device_), seed_);
    entry.names.insert(parameter);
    return entry.run;
  }

 private:
  struct Entry {
    Entry(std::unique_ptr<Backend> backend, uint64_t seed) : run(std::move(backend), seed) {}
    Run run;
    std::set<std::string> names;
  };
  uint64_t seed_;
  Threads threads_;
  std::string backend_;
  int device_;
  std::deque<Entry> runs_;
};

/// One parameter.
class ParameterUpdate {
 public:
  ParameterUpdate(UpdateRuns& runs, const Recipe& recipe, const UpdatedParameter& which,
                  const OptimizerSettings& settings)
      : kind_(recipe.settings(0).optimizer),
        settings_(settings),
        optimizer_(make_optimizer(kind_, settings)) {
    const WeightStorage storage = which.storage(recipe, settings);
    run_ = &runs.run_for(which.name);
    update_.emplace(*run_, TensorUpdate::Setup{.spec = which.spec(),
                                               .tensor_id = which.id,
                                               .storage = storage,
                                               .optimizer = optimizer_.get()});
  }

  /// Calls to come go behind what torch has given this stream of a device.
  void use_stream(uint64_t stream) { run_->backend().use_stream(reinterpret_cast<void*>(stream)); }
  /// As values of training begin: carries are empty, and states stay.
  void put(const InMatrix& values) {
    const View view = view_of(values.data());
    const Unlocked unlocked;
    const UpdatedWeight& weight = update_->parameter().weight;
    put_weight(*run_, weight, view);
    if (weight.carry.rows == 0) return;
    const std::vector<std::byte> zeros(weight.carry.bytes());
    run_->upload(weight.carry.data, std::span<const std::byte>(zeros));
  }
  /// What GEMMs read.
  void get(const OutMatrix& values) {
    const View view = view_of(values.data());
    const Unlocked unlocked;
    run_->execute(Store{stored_plainly(view), update_->parameter().value(), {}});
  }
  /// Constants of the steps to come.
  void set(float beta1, float beta2, float eps, float weight_decay) {
    OptimizerSettings now = settings_;
    now.beta1 = beta1, now.beta2 = beta2, now.eps = eps, now.weight_decay = weight_decay;
    settings_ = now;
    std::unique_ptr<Optimizer> made = make_optimizer(kind_, now);
    update_->follow(*made);
    optimizer_ = std::move(made);
  }
  /// Returns the state that the step put beyond the range of its format; "": none.
  std::string step(float lr, int64_t step, const InMatrix& gradient) {
    const Unlocked unlocked;
    update_->move(lr, step, {gradient.data(), gradient.size()});
    return update_->overflowing();
  }
  /// On a device, for which nobody waits: beyond() has what steps put beyond the range of its
  /// format since it was asked last.
  void step_there(float lr, int64_t step, const InMatrix& gradient) {
    const View view = view_of(gradient.data());
    const Unlocked unlocked;
    update_->move_there(lr, step, view);
  }
  std::string beyond() {
    const Unlocked unlocked;
    std::string found = update_->overflowing();
    if (!found.empty()) update_->forget_overflow();
    return found;
  }

  /// Of what persists, name and bytes: ("moment1.float32", 4096).
  [[nodiscard]] std::vector<std::pair<std::string, size_t>> states() const {
    std::vector<std::pair<std::string, size_t>> list;
    for (const Persistent* row : rows())
      list.emplace_back(state_name(row->spec), row->view.bytes());
    return list;
  }
  void get_state(size_t index, const OutBytes& bytes) const {
    const View& view = rows().at(index)->view;
    NG_CHECK(bytes.size() == view.bytes(), bytes.size(), view.bytes());
    run_->backend().download(bytes.data(), view.data, bytes.size());
  }
  void put_state(size_t index, const OutBytes& bytes) {
    const View& view = rows().at(index)->view;
    NG_CHECK(bytes.size() == view.bytes(), bytes.size(), view.bytes());
    run_->backend().upload(view.data, bytes.data(), bytes.size());
  }
  /// Whether BF16 holds every value that the storage does.
  [[nodiscard]] bool fits_bf16() const {
    return python::fits_bf16(update_->parameter().weight.value.cast);
  }

 private:
  [[nodiscard]] View view_of(const float* values) const {
    const ParameterSpec& spec = update_->parameter().spec;
    auto* const data = reinterpret_cast<std::byte*>(const_cast<float*>(values));
    return {data, fp32_format(), spec.rows, spec.cols, spec.cols};
  }
  [[nodiscard]] std::vector<const Persistent*> rows() const {
    std::vector<const Persistent*> found;
    for (const Persistent& row : run_->persistents())
      if (row.spec.owner == update_->parameter().spec.name) found.push_back(&row);
    return found;
  }

  OptimizerRecipe kind_;
  OptimizerSettings settings_;
  std::unique_ptr<Optimizer> optimizer_;
  Run* run_ = nullptr;
  std::optional<TensorUpdate> update_;
};

}  // namespace

void add_updates(nb::module_& module) {
  nb::class_<UpdateRuns>(module, "UpdateRuns")
      .def(nb::init<uint64_t, int64_t, std::string, int>(), "seed"_a, "threads"_a, "backend"_a,
           "device"_a);
  nb::class_<ParameterUpdate>(module, "ParameterUpdate")
      .def(
          "__init__",
          [](ParameterUpdate* self, UpdateRuns& runs, const Recipe& recipe, const std::string& name,
             std::pair<int64_t, int64_t> shape, bool is_vector, uint32_t id, int64_t blocks,
             const nb::dict& settings) {
            const UpdatedParameter which{name, shape.first, shape.second, is_vector, id, blocks};
            as_call([&] {
              new (self) ParameterUpdate(runs, recipe, which, optimizer_settings_of(settings));
            });
          },
          nb::keep_alive<1, 2>(), "runs"_a, "recipe"_a, "name"_a, "shape"_a, "is_vector"_a, "id"_a,
          "blocks"_a, "settings"_a)
      .def("put", &ParameterUpdate::put, "values"_a)
      .def("get", &ParameterUpdate::get, "values"_a)
      .def("set", &ParameterUpdate::set, "beta1"_a, "beta2"_a, "eps"_a, "weight_decay"_a)
      .def("step", &ParameterUpdate::step, "lr"_a, "step"_a, "gradient"_a)
      .def("use_stream", &ParameterUpdate::use_stream, "stream"_a)
      .def("step_there", &ParameterUpdate::step_there, "lr"_a, "step"_a, "gradient"_a)
      .def("beyond", &ParameterUpdate::beyond)
      .def("states", &ParameterUpdate::states)
      .def("get_state", &ParameterUpdate::get_state, "index"_a, "out"_a)
      .def("put_state", &ParameterUpdate::put_state, "index"_a, "given"_a)
      .def_prop_ro("fits_bf16", &ParameterUpdate::fits_bf16);
}

}  // namespace ng::python
