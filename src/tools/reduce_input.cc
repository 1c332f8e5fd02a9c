#include "tools/reduce_input.h"

#include "base/error.h"
#include "io/hf/coded_file.h"
#include "io/tensor_files.h"
#include "tools/tensor_input.h"

namespace ng {
namespace {

constexpr int64_t kMostRanks = 1024;  // each may be a thread of one process
constexpr const char* kName = "grad";

}  // namespace

ReduceInput::ReduceInput(const std::string& path) : file_(io::open_decoded(path)) {
  const io::SafetensorsEntry& grad = file_.at(kName);
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    throw Error({path, kName, problem, remedy});
  };
  if (!io::is_float(grad)) refuse("dtype " + grad.dtype, "floating-point values");
  if (grad.shape.size() != 3 || grad.elements() == 0)
    refuse("has shape " + shape_text(grad.shape), "(ranks, rows, columns), none of them 0");
  ranks_ = grad.shape[0];
  rows_ = grad.shape[1];
  cols_ = grad.shape[2];
  if (ranks_ > kMostRanks)
    refuse(fmt::format("{} ranks", ranks_), fmt::format("at most {}", kMostRanks));
}

std::vector<float> ReduceInput::gradient(int64_t rank) const {
  std::vector<float> values(static_cast<size_t>(rows_ * cols_));
  io::FloatReader(file_.at(kName)).read(rank * rows_ * cols_, values);
  return values;
}

std::vector<double> ReduceInput::mean() const {
  std::vector<double> mean(static_cast<size_t>(rows_ * cols_));
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<float> values = gradient(rank);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]);
  }
  for (double& x : mean) x /= static_cast<double>(ranks_);
  return mean;
}

std::vector<std::string> ReduceInput::unread() const {
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : file_.entries())
    if (entry.name != kName) names.push_back(entry.name);
  return names;
}

}  // namespace ng
