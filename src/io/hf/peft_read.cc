// Adapters that PEFT saved -> the weights of their base with them merged in.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "io/hf/names.h"
#include "io/hf/peft_config.h"
#include "io/hf/peft_folder.h"
#include "io/hf/peft_tensors.h"
#include "model/adapters.h"
#include "recipe/layer_names.h"

namespace ng::io {
namespace {

std::vector<float> finite_floats(const SafetensorsEntry& entry) {
  std::vector<float> values = to_floats(entry);
  entry.require_finite(values);
  return values;
}

/// (rows, cols) -> (cols, rows)
std::vector<float> transposed(const std::vector<float>& values, int64_t rows) {
  const auto height = static_cast<size_t>(rows), width = values.size() / height;
  std::vector<float> turned(values.size());
  for (size_t r = 0; r < height; ++r)
    for (size_t c = 0; c < width; ++c) turned[c * height + r] = values[r * width + c];
  return turned;
}

/// For each parameter of `config` the one of `base` whose values it has: a head that is no longer
/// tied has the embedding's.
std::vector<size_t> places_in_base(const ModelConfig& config, const ModelConfig& base) {
  const std::vector<ParameterSpec> theirs = parameter_table(base);
  const auto place_of = [&](std::string_view name) {
    size_t place = 0;
    while (place < theirs.size() && theirs[place].name != name) ++place;
    return place;
  };
  std::vector<size_t> places;
  for (const ParameterSpec& spec : parameter_table(config)) {
    const size_t own = place_of(spec.name);
    places.push_back(own < theirs.size() ? own : place_of(layers::weight_of(layers::kEmbed)));
  }
  return places;
}

/// The weights of the base and what adapters make of them.
class PeftWeights {
 public:
  PeftWeights(const std::string& folder, const ModelConfig& base, ParameterReader read)
      : tensors_(folder, base),
        base_(std::move(read)),
        specs_(parameter_table(tensors_.config())),
        places_(places_in_base(tensors_.config(), base)) {}

  void read(size_t index, int64_t row, std::span<float> values) {
    const PeftChange* change = tensors_.change_of(index);
    if (change == nullptr) return base_(places_.at(index), row, values);
    if (held_ != index) hold(index, *change);
    read_unadapted(index, row, values);
    if (change->added != nullptr)
      for (size_t c = 0; c < values.size(); ++c)
        values[c] = static_cast<float>(values[c] + change->scale * added_[c]);
    if (change->magnitude != nullptr)
      decompose(*change, row, values);
    else if (change->a != nullptr)
      add_adapter(values, left(row), right_, change->scale);
  }

 private:
  /// The base's values, or what is in place of them.
  void read_unadapted(size_t index, int64_t row, std::span<float> values) {
    if (!whole_) return base_(places_.at(index), row, values);
    const int64_t first = row * specs_[index].cols;
    if (turned_.empty())
      whole_->read(first, values);
    else
      std::copy_n(turned_.begin() + first, values.size(), values.begin());
    tensors_.change_of(index)->whole->require_finite(values);
  }

  /// values = m·V/‖V‖, V the row with its adapter; of a table each column has its norm.
  void decompose(const PeftChange& change, int64_t row, std::span<float> values) {
    const std::vector<double> sums = adapted_row(values, left(row), right_, change.scale);
    if (!change.is_table) {
      double squares = 0;
      for (const double sum : sums) squares += sum * sum;
      norms_.assign(sums.size(), norm_of(change, squares));
    }
    for (size_t c = 0; c < sums.size(); ++c) {
      const float magnitude = magnitudes_[change.is_table ? c : static_cast<size_t>(row)];
      values[c] = static_cast<float>(magnitude * sums[c] / norms_[c]);
    }
  }

  [[nodiscard]] static double norm_of(const PeftChange& change, double squares) {
    if (squares > 0 && std::isfinite(squares)) return std::sqrt(squares);
    change.magnitude->refuse("is of a row W + B·A whose norm is 0 or not finite",
                             "another base: this one cannot be divided by it");
  }

  /// Row `row` of B, or of A transposed.
  [[nodiscard]] std::span<const float> left(int64_t row) const {
    return std::span(left_).subspan(static_cast<size_t>(row) * rank_, rank_);
  }

  /// As long as rows of one parameter are asked for: what changes it.
  void hold(size_t index, const PeftChange& change) {
    held_ = SIZE_MAX;
    whole_.reset();
    turned_.clear();
    if (change.whole != nullptr) whole_.emplace(*change.whole);
    if (change.whole != nullptr && specs_[index].hf_transposed)
      turned_ = transposed(to_floats(*change.whole), specs_[index].cols);
    if (change.added != nullptr) added_ = finite_floats(*change.added);
    if (change.magnitude != nullptr) magnitudes_ = finite_floats(*change.magnitude);
    if (change.a != nullptr) {
      rank_ = static_cast<size_t>(change.rank);
      right_ = finite_floats(*change.a);
      left_ = finite_floats(*change.b);
    }
    if (change.is_table) {
      std::swap(left_, right_);  // Wᵀ = B·A
      left_ = transposed(left_, change.rank);
      right_ = transposed(right_, specs_[index].cols);
      if (change.magnitude != nullptr) hold_norms(index, change);
    }
    held_ = index;
  }

  /// Of the columns of a table.
  void hold_norms(size_t index, const PeftChange& change) {
    const ParameterSpec& spec = specs_[index];
    std::vector<float> row(static_cast<size_t>(spec.cols));
    norms_.assign(row.size(), 0);
    for (int64_t r = 0; r < spec.rows; ++r) {
      read_unadapted(index, r, row);
      const std::vector<double> sums = adapted_row(row, left(r), right_, change.scale);
      for (size_t c = 0; c < sums.size(); ++c) norms_[c] += sums[c] * sums[c];
    }
    for (double& norm : norms_) norm = norm_of(change, norm);
  }

  PeftTensors tensors_;
  ParameterReader base_;
  std::vector<ParameterSpec> specs_;
  std::vector<size_t> places_;
  size_t held_ = SIZE_MAX;            // the parameter whose changes are here
  std::optional<FloatReader> whole_;  // what is in place of the base's values
  std::vector<float> turned_;         // the same, where it is stored transposed
  size_t rank_ = 0;
  std::vector<float> left_, right_;  // (rows, rank), (rank, cols)
  std::vector<float> magnitudes_, added_;
  std::vector<double> norms_;  // of each column
};

}  // namespace

bool is_peft_folder(const std::string& folder) {
  return is_folder(folder) && is_file(join_path(folder, kPeftConfig));
}

std::string peft_base(const std::string& folder) { return read_peft_config(folder).base; }

ModelConfig peft_model_config(const std::string& folder, const ModelConfig& base) {
  return PeftTensors(folder, base).config();
}

ParameterReader open_peft_weights(const std::string& folder, const ModelConfig& base,
                                  const ParameterReader& read) {
  const auto weights = std::make_shared<PeftWeights>(folder, base, read);
  return [weights](size_t index, int64_t row, std::span<float> values) {
    weights->read(index, row, values);
  };
}

}  // namespace ng::io
