// A file of a weight and of tensors beside it, as commands read one that is the user's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/named_tensors.h"

namespace ng {

/// "(2, 3)"
[[nodiscard]] std::string shape_text(const std::vector<int64_t>& shape);

/// Which tensors stand for those that a command reads: {"weight": {"blocks.0.mlp.up.weight"}}, for
/// a gradient one or more. What is not there is called as the command calls it.
using TensorNames = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Matrices of one shape from one tensor or several, in a row.
class MatrixSeries {
 public:
  /// Tensors (n, r, c). `by_name`: also (r, c), one matrix, and (c), one row of one. Empty where
  /// one has another shape or no values, or two differ.
  MatrixSeries(std::vector<io::SafetensorsEntry> tensors, bool by_name);

  [[nodiscard]] int64_t count() const { return std::ssize(places_); }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  /// The tensor of matrix `index`, and where its values begin there.
  [[nodiscard]] const io::SafetensorsEntry& tensor(int64_t index) const;
  [[nodiscard]] int64_t first(int64_t index) const;
  void read(int64_t index, std::span<float> values) const;

 private:
  struct Place {
    size_t tensor = 0;
    int64_t first = 0;
  };
  std::vector<io::SafetensorsEntry> tensors_;
  std::vector<Place> places_;
  int64_t rows_ = 0, cols_ = 0;
};

/// The tensors of a file, a folder or a run, with a float tensor `weight` (r, c). Throws Error,
/// naming file and tensor, where one is missing, has another shape, is no float, or holds what is
/// not finite.
class TensorInput {
 public:
  explicit TensorInput(const std::string& path, const TensorNames& names = {});

  [[nodiscard]] const std::string& path() const { return file_.place(); }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  [[nodiscard]] std::vector<float> weight() const { return matrix("weight", rows_, cols_); }
  [[nodiscard]] const io::SafetensorsEntry& weight_tensor() const { return at("weight"); }

  /// Whether the user said which tensors are meant: of all others nothing is asked.
  [[nodiscard]] bool is_by_name() const { return !chosen_.empty(); }
  [[nodiscard]] bool has(const std::string& name) const;
  /// Values of a tensor of this shape; where `cols` is 1, of `rows` values in one dimension too.
  [[nodiscard]] std::vector<float> matrix(const std::string& name, int64_t rows,
                                          int64_t cols) const;
  /// Names of the tensors that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> names_with(std::string_view prefix) const;

  [[noreturn]] void refuse(const std::string& tensor, const std::string& problem,
                           const std::string& remedy) const;

 protected:
  /// The first that stands for `name`.
  [[nodiscard]] const io::SafetensorsEntry& at(const std::string& name) const;
  [[nodiscard]] const io::SafetensorsEntry& floats(const std::string& name) const;
  /// All that stand for `name`, floats.
  [[nodiscard]] MatrixSeries series(const std::string& name) const;
  void check_finite(const io::SafetensorsEntry& entry, int64_t first,
                    std::span<const float> values) const;

 private:
  [[nodiscard]] bool is_chosen(const std::string& name) const { return chosen_.contains(name); }
  void require_floats(const io::SafetensorsEntry& entry) const;

  io::NamedTensors file_;
  std::map<std::string, std::vector<io::SafetensorsEntry>, std::less<>> chosen_;
  int64_t rows_ = 0, cols_ = 0;
};

}  // namespace ng
