#include "train/shared_scales.h"

#include <algorithm>
#include <span>

#include "comm/row_messages.h"

namespace ng {
namespace {

constexpr size_t kMaxima = sizeof(UpdateMaxima) / sizeof(float);
static_assert(kMaxima == 3);

UpdateMaxima larger(const UpdateMaxima& a, const UpdateMaxima& b) {
  return {.weight = std::max(a.weight, b.weight),
          .moment1 = std::max(a.moment1, b.moment1),
          .moment2 = std::max(a.moment2, b.moment2)};
}

/// The one scale of a tensor, as a tensor.
View scale_of(const View& x) { return {x.scales.data, *x.scales.element, 1, 1, 1}; }

}  // namespace

SharedScales::SharedScales(Run& run, Model& model, const Optimizer& optimizer)
    : run_(run), model_(model), optimizer_(optimizer) {
  std::vector<float> is_shared(model.parameters().size());
  for (size_t i = 0; i < is_shared.size(); ++i)
    for (const Parameter* owned : model.owned_of(i))
      if (optimizer.has_shared_scales(run, *owned)) is_shared[i] = 1;
  has_own_ = std::find(is_shared.begin(), is_shared.end(), 1) != is_shared.end();
  run.ranks().world().max(is_shared);
  for (size_t i = 0; i < is_shared.size(); ++i)
    if (is_shared[i] > 0) shared_.push_back(i);
}

UpdateMaxima* SharedScales::place_of(size_t index) {
  const auto found = std::lower_bound(shared_.begin(), shared_.end(), index);
  if (!maxima_ || found == shared_.end() || *found != index) return nullptr;
  return reinterpret_cast<UpdateMaxima*>(maxima_.bytes()) + (found - shared_.begin());
}

void SharedScales::find(const OptimizerStep& step) {
  if (shared_.empty()) return;
  std::vector<UpdateMaxima> largest(shared_.size());
  if (has_own_)
    maxima_ = run_.tensor(static_cast<int64_t>(shared_.size()), kMaxima, fp32_format(),
                          MemoryKind::operands);
  for (size_t i = 0; i < shared_.size(); ++i)
    for (const Parameter* owned : model_.owned_of(shared_[i])) {
      UpdateMaxima* const place = place_of(shared_[i]);
      optimizer_.find_maxima(run_, *owned, step, place);
      if (!run_.recording()) largest[i] = larger(largest[i], run_.read(place));
    }
  if (run_.recording()) return;
  run_.ranks().world().max({&largest[0].weight, kMaxima * largest.size()});
  if (has_own_) run_.upload(place_of(shared_[0]), std::span<const UpdateMaxima>(largest));
}

// An update reads the scale of before and leaves the new one: pieces of one value each have a copy.
void SharedScales::update(size_t index, OptimizerStep& step) {
  const std::span<Parameter* const> owned = model_.owned_of(index);
  const View value = model_.parameters()[index].value();
  const bool has_copies = owned.size() > 1 && has_one_scale(value);
  std::vector<Tensor> copies;
  step.maxima = place_of(index);
  for (Parameter* part : owned) {
    BasicScales<std::byte>& scales = part->weight.value.view.scales;
    if (has_copies) {
      copies.push_back(run_.tensor(1, 1, *value.scales.element, MemoryKind::operands));
      run_.execute(Copy{.y = copies.back(), .x = scale_of(value)});
      scales.data = copies.back().bytes();
    }
    optimizer_.update(run_, *part, step);
    if (has_copies) scales.data = value.scales.data;
    if (step.report != nullptr) ++step.report;
  }
  if (has_copies) run_.execute(Copy{.y = scale_of(value), .x = copies.back()});
}

}  // namespace ng
