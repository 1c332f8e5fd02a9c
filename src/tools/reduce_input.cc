#include "tools/reduce_input.h"

#include "base/error.h"
#include "io/tensor_files.h"

namespace ng {
namespace {

constexpr int64_t kMostRanks = 1024;  // each may be a thread of one process
constexpr const char* kName = "grad";

}  // namespace

ReduceInput::ReduceInput(const std::string& path, const TensorNames& names)
    : file_(path),
      grads_(read_grads(names.contains(kName) ? names.at(kName) : std::vector<std::string>{})) {
  if (!names.empty()) return;
  for (const io::SafetensorsEntry& entry : file_.entries())
    if (entry.name != kName) unread_.push_back(entry.name);
}

MatrixSeries ReduceInput::read_grads(const std::vector<std::string>& names) const {
  std::vector<io::SafetensorsEntry> tensors;
  for (const std::string& name : names) tensors.push_back(file_.at(name));
  if (names.empty()) tensors.push_back(file_.at(kName));
  const io::SafetensorsEntry grad = tensors.front();
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    throw Error({file_.place(), grad.name, problem, remedy});
  };
  for (const io::SafetensorsEntry& tensor : tensors)
    if (!io::is_float(tensor)) refuse("dtype " + tensor.dtype, "floating-point values");
  MatrixSeries grads(std::move(tensors), !names.empty());
  if (grads.count() == 0)
    refuse("has shape " + shape_text(grad.shape),
           names.empty() ? "(ranks, rows, columns), none of them 0"
                         : "(rows, columns) or (ranks, rows, columns), of all that are named");
  if (grads.count() > kMostRanks)
    refuse(fmt::format("{} ranks", grads.count()), fmt::format("at most {}", kMostRanks));
  return grads;
}

std::vector<float> ReduceInput::gradient(int64_t rank) const {
  std::vector<float> values(static_cast<size_t>(rows() * cols()));
  grads_.read(rank, values);
  return values;
}

std::vector<double> ReduceInput::mean() const {
  std::vector<double> mean(static_cast<size_t>(rows() * cols()));
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const std::vector<float> values = gradient(rank);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]);
  }
  for (double& x : mean) x /= static_cast<double>(ranks());
  return mean;
}

}  // namespace ng
