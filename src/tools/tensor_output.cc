#include "tools/tensor_output.h"

#include "base/output_file.h"

namespace ng {

void require_tensor_output(const std::string& out, const std::string& in, const Recipe& recipe,
                           const std::string& mark, const std::string& what) {
  refuse_input(out, in);
  refuse_input(out, recipe.place());
  require_target(out, what, [&](const std::string& path) { return io::has_metadata(path, mark); });
}

std::map<std::string, std::string> tensor_metadata(const std::string& mark, const std::string& made,
                                                   const Recipe& recipe, const RandomKey& key) {
  return {{mark, made},
          {"recipe", recipe.name()},
          {"recipe_hash", recipe.hash()},
          {"seed", std::to_string(key.seed)},
          {"step", std::to_string(key.step)},
          {"tensor_id", std::to_string(key.tensor)}};
}

std::vector<float>& OutputTensors::add(const std::string& name, std::vector<int64_t> shape) {
  tensors_.push_back({name, "F32", std::move(shape), nullptr});
  return floats_.emplace_back();
}

void OutputTensors::add(const std::string& name, const char* dtype, std::vector<int64_t> shape,
                        std::span<const std::byte> values) {
  const auto& kept = others_.emplace_back(values.begin(), values.end());
  tensors_.push_back({name, dtype, std::move(shape), kept.data()});
}

void OutputTensors::write(const std::string& path,
                          const std::map<std::string, std::string>& metadata) {
  auto next = floats_.begin();
  std::vector<io::SafetensorsTensor> tensors = tensors_;
  for (io::SafetensorsTensor& tensor : tensors)
    if (tensor.data == nullptr) tensor.data = (next++)->data();
  io::write_safetensors(path, tensors, metadata);
}

}  // namespace ng
