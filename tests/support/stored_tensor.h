// A tensor as it persists, in memory of a backend, with its scales.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "backend/backend_memory.h"
#include "format/packing.h"

namespace ng {

/// Zero codes, and zero scales, which are none, until something is put.
class StoredTensor {
 public:
  StoredTensor(Backend& backend, const Operand& cast, int64_t rows, int64_t cols)
      : backend_(backend),
        cast_(cast),
        rows_(rows),
        cols_(cols),
        codes_(backend, static_cast<size_t>(rows) * bytes_of(*cast.element, stride())) {
    if (cast.parts == 2) low_.emplace(backend, codes_.size());
    if (cast.is_unscaled()) return;
    const size_t bytes = bytes_of(scale_element(cast), scale_count());
    scales_.emplace(backend, bytes);
    tensor_scale_.emplace(backend, sizeof(float));
    if (!cast.expand) return;
    powers_.emplace(backend, bytes);
    centers_.emplace(backend, bytes);
  }

  [[nodiscard]] View view() const {
    View view{codes_.data(), *cast_.element, rows_, cols_, stride()};
    if (low_) view.low = low_->data();
    if (!scales_) return view;
    const bool two_levels = cast_.tensor_scale != ScaleKind::none;
    view.scales = {scales_->data(), &scale_element(cast_), cast_.block,
                   two_levels ? tensor_scale_->floats() : nullptr, cast_.coding()};
    if (!cast_.expand) return view;
    view.scales.power = powers_->floats();
    view.scales.center = centers_->floats();
    return view;
  }
  [[nodiscard]] Stored stored() const { return {view(), cast_}; }

  template <class Code>
  void put_codes(const Code* codes) {
    std::vector<uint8_t> memory(codes_.size());
    std::vector<uint16_t> row(static_cast<size_t>(stride()));
    const size_t row_bytes = bytes_of(*cast_.element, stride());
    const auto mask = static_cast<uint16_t>((uint64_t{1} << cast_.element->bits) - 1);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c)
        row[static_cast<size_t>(c)] = static_cast<uint16_t>(codes[r * cols_ + c]) & mask;
      pack_codes(row, cast_.element->bits,
                 {memory.data() + static_cast<size_t>(r) * row_bytes, row_bytes});
    }
    backend_.upload(codes_.data(), memory.data(), memory.size());
  }
  [[nodiscard]] std::vector<uint16_t> codes() const {
    std::vector<uint8_t> memory(codes_.size());
    backend_.download(memory.data(), codes_.data(), memory.size());
    std::vector<uint16_t> row(static_cast<size_t>(stride())), codes;
    const size_t row_bytes = bytes_of(*cast_.element, stride());
    for (int64_t r = 0; r < rows_; ++r) {
      unpack_codes({memory.data() + static_cast<size_t>(r) * row_bytes, row_bytes},
                   cast_.element->bits, row);
      codes.insert(codes.end(), row.begin(), row.begin() + cols_);
    }
    return codes;
  }
  /// Of FP32 elements.
  void put_floats(const float* values) {
    backend_.upload(codes_.data(), values, static_cast<size_t>(rows_ * cols_) * sizeof(float));
  }
  [[nodiscard]] std::vector<float> floats() const {
    std::vector<float> values(static_cast<size_t>(rows_ * cols_));
    backend_.download(values.data(), codes_.data(), values.size() * sizeof(float));
    return values;
  }
  /// What values are multiplied by on the way in, of FP32 scales; put as its inverse.
  void put_encode_scales(const float* scales) {
    if (!scales_) return;
    std::vector<float> decode;
    for (int64_t i = 0; i < scale_count(); ++i) decode.push_back(1.0f / scales[i]);
    backend_.upload(scales_->data(), decode.data(), scales_->size());
  }
  /// Of FP32 scales: what values are multiplied by on the way out. 1 where there are none.
  [[nodiscard]] std::vector<float> decode_scales() const {
    std::vector<float> scales(static_cast<size_t>(scales_ ? scale_count() : 1), 1.0f);
    if (scales_) backend_.download(scales.data(), scales_->data(), scales_->size());
    return scales;
  }
  /// Bytes of all scales.
  [[nodiscard]] std::vector<uint8_t> scale_bytes() const { return bytes_of_all({&scales_}); }
  /// Bytes of what lies beside codes and scales: low parts, powers, centers.
  [[nodiscard]] std::vector<uint8_t> other_bytes() const {
    return bytes_of_all({&low_, &powers_, &centers_});
  }

 private:
  using Memory = std::optional<BackendMemory>;
  [[nodiscard]] std::vector<uint8_t> bytes_of_all(std::initializer_list<const Memory*> all) const {
    std::vector<uint8_t> bytes;
    for (const Memory* memory : all) {
      if (!*memory) continue;
      const size_t before = bytes.size();
      bytes.resize(before + (*memory)->size());
      backend_.download(bytes.data() + before, (*memory)->data(), (*memory)->size());
    }
    return bytes;
  }
  [[nodiscard]] int64_t stride() const { return tight_stride(*cast_.element, cols_); }
  [[nodiscard]] int64_t scale_count() const {
    const ScaleShape shape = scale_shape(cast_, rows_, cols_);
    return shape.rows * shape.cols;
  }

  Backend& backend_;
  Operand cast_;
  int64_t rows_, cols_;
  BackendMemory codes_;
  Memory scales_, tensor_scale_, low_, powers_, centers_;
};

}  // namespace ng
