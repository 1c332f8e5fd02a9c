// Tensors of golden files through update_file: from a file to a file, as the command does it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "format/codec.h"
#include "support/golden_file.h"
#include "support/tensor_files.h"
#include "tools/update_file.h"

namespace ng {

/// Part `index` of those that are `size` long.
template <class Value>
std::vector<Value> part(const std::vector<Value>& values, size_t index, size_t size) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(index * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

/// Values of codes under encode scales, each of which serves as many values in a row of `cols` as
/// `block` says; 0: one for all.
inline std::vector<float> decoded(std::string_view element, const std::vector<int64_t>& codes,
                                  const std::vector<float>& encode_scales, size_t cols = 0,
                                  size_t block = 0) {
  const ElementFormat& format = element_format(element);
  const auto mask = (int64_t{1} << format.bits) - 1;
  std::vector<float> values(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t per_row = block == 0 ? 0 : (cols + block - 1) / block;
    const size_t at = block == 0 ? 0 : i / cols * per_row + i % cols / block;
    const float scale = 1.0f / encode_scales[at];
    values[i] = decode(format, static_cast<uint32_t>(codes[i] & mask)) * scale;
  }
  return values;
}

/// The codes of tensor `name` are these, but for the signs of zeros.
inline void expect_codes(const io::Safetensors& file, const std::string& name,
                         const std::vector<int64_t>& want, std::string_view element) {
  const std::vector<int64_t> got = io::to_integers(file.at(name + ".codes"));
  ASSERT_EQ(got.size(), want.size()) << name;
  const ElementFormat& format = element_format(element);
  const auto mask = (int64_t{1} << format.bits) - 1;
  int64_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool zeros = is_zero_code(format, static_cast<uint32_t>(got[i])) &&
                       is_zero_code(format, static_cast<uint32_t>(want[i] & mask));
    wrong += got[i] == (want[i] & mask) || zeros ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0) << name;
}

inline void expect_scales(const io::Safetensors& file, const std::string& name,
                          const std::vector<float>& encode_scales) {
  const std::vector<float> got = io::to_floats(file.at(name + ".scale"));
  ASSERT_EQ(got.size(), encode_scales.size()) << name;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 1.0f / encode_scales[i]) << name << i;
}

/// Updates tensors that a test names, by files.
class UpdateFiles : public TensorFiles, public testing::WithParamInterface<std::string_view> {
 protected:
  void SetUp() override {
    TensorFiles::SetUp();
    settings_.backend = GetParam();
    settings_.threads = {2};
  }
  /// Updates what was taken, and forgets it.
  io::Safetensors update(const std::string& recipe) {
    write_taken(in("in"));
    report_ = update_file(in("in"), in("out"), Recipe::parse(recipe, "test.toml"), settings_,
                          [](int64_t, int64_t) {});
    EXPECT_EQ(report_.not_finite, std::vector<std::string>{});
    return io::Safetensors(in("out"));
  }
  void set_key(const Json& parameters, uint32_t step) {
    settings_.seed = std::stoull(parameters.value("seed", "0"));
    settings_.tensor_id = parameters.value("tensor_id", 0u);
    settings_.first_step = step;
  }
  void set_numbers(const Json& parameters) {
    settings_.lr = parameters["lr"];
    OptimizerSettings& o = settings_.optimizer;
    o.beta1 = parameters.value("beta1", 0.0f);
    o.beta2 = parameters.value("beta2", 0.0f);
    o.eps = parameters.value("eps", 0.0f);
    o.weight_decay = parameters.value("weight_decay", 0.0f);
  }

  UpdateFileSettings settings_;
  UpdateFileReport report_;
};

}  // namespace ng
