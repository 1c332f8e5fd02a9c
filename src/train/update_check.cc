#include "train/update_check.h"

#include <algorithm>
#include <vector>

#include "model/weights.h"
#include "recipe/layer_names.h"
#include "run/transfer.h"
#include "train/known_values.h"

namespace ng {
namespace {

// Ragged against blocks and vectors; the rows are whole heads.
constexpr int64_t kCheckedRows = 24, kCheckedCols = 161;
constexpr int64_t kCheckedSteps = 2;  // the second finds states that are not zero

/// Whether two parameters take the same way through an update.
bool are_alike(const Parameter& a, const Parameter& b) {
  const UpdatedWeight &u = a.weight, &w = b.weight;
  const auto same = [](const Stored& x, const Stored& y) {
    return bool(x) == bool(y) && (!x || x.cast == y.cast);
  };
  return same(u.value, w.value) && same(u.master, w.master) && u.carry.element == w.carry.element &&
         u.rule == w.rule && u.momentum_feedback == w.momentum_feedback && u.rtol == w.rtol &&
         u.max_iters == w.max_iters && u.search == w.search && same(a.moment1, b.moment1) &&
         same(a.moment2, b.moment2) &&
         layers::place_of(a.spec.name).part == layers::place_of(b.spec.name).part;
}

/// A small parameter of these weights that is stored like another, with its states.
Parameter like(Run& run, const Parameter& model, std::span<const float> weights,
               const Optimizer& optimizer) {
  Parameter small;
  small.spec = model.spec;
  small.spec.rows = kCheckedRows;
  small.spec.cols = kCheckedCols;
  small.id = model.id;
  small.grad_element = model.grad_element;
  const auto stored = [&](const char* what, const Stored& as) {
    return run.stored({{.name = fmt::format("{}.{}", what, small.spec.name),
                        .owner = small.spec.name,
                        .rows = kCheckedRows,
                        .cols = kCheckedCols},
                       as.cast});
  };
  small.weight = model.weight;
  small.weight.value = stored("weight", model.weight.value);
  if (model.weight.master) small.weight.master = stored("master", model.weight.master);
  if (model.weight.carry.rows > 0)
    small.weight.carry = run.persistent({.name = "carry." + small.spec.name,
                                         .owner = small.spec.name,
                                         .element = model.weight.carry.element,
                                         .rows = kCheckedRows,
                                         .cols = kCheckedCols});
  optimizer.claim(run, small);
  TemporaryTensor values(run.backend(), kCheckedRows, kCheckedCols);
  values.upload(weights);
  put_weight(run, small.weight, values.view());
  return small;
}

/// The parameters after their updates, in one backend.
class Trial {
 public:
  Trial(std::unique_ptr<Backend> backend, const Optimizer& optimizer,
        std::span<const Parameter* const> models)
      : run_(std::move(backend), 7), optimizer_(optimizer) {
    const std::vector<float> weights = known_values(kCheckedRows * kCheckedCols, 0, 0.02f);
    for (const Parameter* model : models)
      parameters_.push_back(like(run_, *model, weights, optimizer));
    const Program program = run_.record([&] { update(0); });
    run_.reserve({&program});
    for (int64_t step = 0; step < kCheckedSteps; ++step)
      run_.replay(program, [&] { update(step); });
  }

  [[nodiscard]] const Run& run() const { return run_; }

 private:
  void update(int64_t step) {
    const std::vector<float> gradients =
        known_values(kCheckedRows * kCheckedCols, static_cast<uint32_t>(step + 1), 1e-3f);
    for (Parameter& parameter : parameters_) {
      const View grad = gradient_target(run_, parameter).view;
      for (int64_t r = 0; r < kCheckedRows && !run_.recording(); ++r)
        upload_row(
            run_.backend(), grad, r,
            std::span(gradients).subspan(static_cast<size_t>(r * kCheckedCols), kCheckedCols));
      optimizer_.update(run_, parameter, {.lr = 1e-3f, .step = step});
      forget_step(parameter);
    }
  }

  Run run_;
  const Optimizer& optimizer_;
  std::vector<Parameter> parameters_;
};

std::vector<std::byte> bytes_of(const Run& run, const Persistent& row) {
  std::vector<std::byte> bytes(row.view.bytes());
  run.backend().download(bytes.data(), row.view.data, bytes.size());
  return bytes;
}

void compare(const Run& run, const Run& reference) {
  const std::vector<Persistent>&got = run.persistents(), &want = reference.persistents();
  NG_CHECK(got.size() == want.size(), got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (!want[i].spec.is_saved || bytes_of(run, got[i]) == bytes_of(reference, want[i])) continue;
    throw Error(
        {.place = "self-check",
         .key = fmt::format("{} in {}", want[i].spec.name, want[i].spec.element->short_name),
         .problem = "an update of known values leaves other bits than the definition",
         .remedy = "--isa scalar, or --backend ref, and a report with `narrowgauge info`"});
  }
}

}  // namespace

int check_updates(std::unique_ptr<Backend> backend, std::unique_ptr<Backend> reference,
                  const OptimizerRecipe& recipe, const OptimizerSettings& settings,
                  std::span<const Parameter> parameters) {
  std::vector<const Parameter*> distinct;
  for (const Parameter& parameter : parameters) {
    const bool is_known = std::any_of(distinct.begin(), distinct.end(), [&](const Parameter* seen) {
      return are_alike(*seen, parameter);
    });
    if (!is_known) distinct.push_back(&parameter);
  }
  OptimizerSettings small = settings;
  small.heads = small.kv_heads = 2;
  small.least_narrow = 0;  // as the large tensors that stand behind these
  OptimizerRecipe narrow = recipe;
  narrow.moment1.min_size = narrow.moment2.min_size = Operand::kNoMinSize;
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(narrow, small);
  const Trial got(std::move(backend), *optimizer, distinct);
  const Trial want(std::move(reference), *optimizer, distinct);
  compare(got.run(), want.run());
  return static_cast<int>(distinct.size());
}

}  // namespace ng
