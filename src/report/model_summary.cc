#include "report/model_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "io/gguf/gguf.h"
#include "io/model_files.h"
#include "io/tensor_files.h"
#include "model/config.h"
#include "report/run_text.h"

namespace ng::report {

void ModelSummary::add(const io::SafetensorsEntry& tensor) {
  auto dtype = std::ranges::find(dtypes, tensor.dtype, &Dtype::name);
  if (dtype == dtypes.end()) dtype = dtypes.insert(dtype, {.name = tensor.dtype});
  ++dtype->tensors;
  dtype->values += tensor.elements();
  dtype->bytes += tensor.bytes;
  ++tensors;
  values += tensor.elements();
  bytes += tensor.bytes;
}

ModelSummary summary_of(const std::vector<std::string>& files) {
  ModelSummary summary;
  for (const std::string& path : files) {
    const io::TensorFile file(path);
    for (const io::SafetensorsEntry& tensor : file.entries()) summary.add(tensor);
  }
  std::ranges::sort(summary.dtypes, {}, &ModelSummary::Dtype::name);
  try {
    const std::string& first = files.front();
    const ModelConfig model = io::read_model_config(
        {io::is_gguf(first) ? first : std::filesystem::absolute(first).parent_path().string(), ""});
    summary.architecture = model_text(model);
    for (const ParameterSpec& spec : parameter_table(model))
      summary.parameters += spec.rows * spec.cols;
  } catch (const Error&) {  // tensors of something else
  }
  return summary;
}

Json json_of(const ModelSummary& summary) {
  Json dtypes = Json::array();
  for (const ModelSummary::Dtype& dtype : summary.dtypes)
    dtypes.push_back({{"dtype", dtype.name},
                      {"tensors", dtype.tensors},
                      {"values", dtype.values},
                      {"bytes", dtype.bytes}});
  const bool is_known = !summary.architecture.empty();
  return {{"architecture", is_known ? Json(summary.architecture) : Json()},
          {"parameters", is_known ? Json(summary.parameters) : Json()},
          {"tensors", summary.tensors},
          {"values", summary.values},
          {"bytes", summary.bytes},
          {"dtypes", dtypes}};
}

std::vector<std::pair<std::string, std::string>> lines_of(const ModelSummary& summary) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (!summary.architecture.empty()) {
    lines.emplace_back("model", summary.architecture);
    lines.emplace_back("parameters", count_text(summary.parameters));
  }
  lines.emplace_back("tensors", fmt::format("{}, {} values, {}", count_text(summary.tensors),
                                            count_text(summary.values),
                                            size_text(static_cast<double>(summary.bytes))));
  std::vector<std::string> dtypes;
  for (const ModelSummary::Dtype& dtype : summary.dtypes)
    dtypes.push_back(fmt::format("{}: {}, {}", dtype.name, counted(dtype.tensors, "tensor"),
                                 size_text(static_cast<double>(dtype.bytes))));
  lines.emplace_back("stored as", fmt::format("{}", fmt::join(dtypes, "; ")));
  return lines;
}

}  // namespace ng::report
