// How values come to lie in a model's parameters, and out of them.
#include <algorithm>

#include "comm/row_messages.h"
#include "model/model.h"
#include "run/owned_rows.h"
#include "run/transfer.h"

namespace ng {
namespace {

bool has_scales(const UpdatedWeight& weight) {
  return !weight.value.cast.is_unscaled() || (weight.master && !weight.master.cast.is_unscaled());
}

}  // namespace

// The owner of rows makes masters and carries of them, and the value that all have. Ranks that have
// the parts of a row own the same rows.
void Model::put_values(Run& run, size_t index, const View& values) {
  const ParameterSpec& spec = parameters_[index].spec;
  if (spec.is_frozen) return put_weight(run, parameters_[index].weight, values);
  const std::span<Parameter* const> mine = owned_of(index);
  const bool is_in_parts = spec.cut || partition_.of(static_cast<int64_t>(index)).size() > 1;
  std::optional<float> amax;
  if (is_in_parts && !mine.empty() && has_scales(mine.front()->weight)) {
    amax = largest_of(run, values);
    if (spec.cut) run.tensor_group().max(std::span(&*amax, 1));
  }
  for (const Parameter* owned : mine) {
    const View rows = values.slice(owned->first_row, owned->spec.rows);
    put_weight(run, owned->weight, rows, amax);
    put_carry(run, *owned, rows);
  }
  send_value(run, index);
}

void Model::send_value(Run& run, size_t index) {
  const Parameter& parameter = parameters_[index];
  send_rows(run, owners_of(run, parameter.spec), parameter.value(),
            partition_.of(static_cast<int64_t>(index)));
}

void Model::copy_masters(Run& run) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].is_copied) continue;
    std::optional<float> amax;
    if (parameters_[i].value().has_scales()) {
      amax = 0;
      for (const Parameter* owned : owned_of(i))
        amax = std::max(*amax, largest_of(run, owned->weight.master.view));
      run.ranks().world().max(std::span(&*amax, 1));
    }
    for (const Parameter* owned : owned_of(i)) copy_master(run, owned->weight, amax);
    send_value(run, i);
  }
}

void Model::take_values(Run& run, const Model& from) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Stored &to = parameters_[i].weight.value, &values = from.parameters_[i].weight.value;
    NG_CHECK(parameters_[i].spec.name == from.parameters_[i].spec.name, parameters_[i].spec.name);
    if (!(to.cast == values.cast)) continue;
    std::vector<std::span<std::byte>> places;
    for_each_memory(to.view, [&](std::span<std::byte> memory, bool) { places.push_back(memory); });
    auto place = places.begin();
    for_each_memory(ConstView(values.view), [&](std::span<const std::byte> memory, bool) {
      run.upload((place++)->data(), std::span<const std::byte>(run.read(memory)));
    });
  }
}

void Model::read_row(const Run& run, size_t index, int64_t row, std::span<float> values) const {
  const Parameter& parameter = parameters_.at(index);
  NG_CHECK(!parameter.spec.cut, parameter.spec.name);
  download_row(run.backend(), parameter.value(), row, values);
}

// A scale may span rows, and a master is more than its value: such a weight is put when its last
// row is there.
void Model::write_row(Run& run, size_t index, int64_t row, std::span<const float> values) {
  Parameter& parameter = parameters_.at(index);
  const ParameterSpec& spec = parameter.spec;
  std::vector<float> mine(static_cast<size_t>(spec.cols));
  int64_t own_row = -1;
  for (const CutPiece& at : pieces_of(spec.cut, spec.rows, spec.cols)) {
    if (row < at.whole_row || row >= at.whole_row + at.rows) continue;
    own_row = at.row + row - at.whole_row;
    std::copy_n(values.begin() + at.whole_col, at.cols, mine.begin() + at.col);
  }
  if (own_row >= 0) {
    if (parameter.is_plain) return upload_row(run.backend(), parameter.value(), own_row, mine);
    NG_CHECK(own_row * spec.cols == std::ssize(pending_), spec.name, row, pending_.size());
    pending_.insert(pending_.end(), mine.begin(), mine.end());
  }
  if (parameter.is_plain || row + 1 < spec.cut.whole_rows(spec.rows)) return;
  TemporaryTensor all(run.backend(), spec.rows, spec.cols);
  all.upload(pending_);
  pending_ = {};
  put_values(run, index, all.view());
}

}  // namespace ng
