// A tensor as it persists, in memory of a backend, with its scales.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "format/packing.h"
#include "format/table.h"

namespace ng {

/// Zero codes, and zero scales, which are none, until something is put.
class StoredTensor {
 public:
  StoredTensor(Backend& backend, const Operand& cast, int64_t rows, int64_t cols)
      : backend_(&backend), cast_(cast), rows_(rows), cols_(cols) {
    bytes_ = static_cast<size_t>(rows) * bytes_of(*cast.element, stride());
    codes_ = backend.allocate(bytes_);
    if (!cast.is_unscaled()) {
      scale_bytes_ = bytes_of(scale_element(), scale_count());
      scales_ = backend.allocate(scale_bytes_);
      tensor_scale_ = backend.allocate(sizeof(float));
    }
  }
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;
  ~StoredTensor() {
    backend_->release(codes_, bytes_);
    if (scales_ == nullptr) return;
    backend_->release(scales_, scale_bytes_);
    backend_->release(tensor_scale_, sizeof(float));
  }

  [[nodiscard]] View view() const {
    View view{codes_, *cast_.element, rows_, cols_, stride()};
    if (scales_ == nullptr) return view;
    const bool two_levels = cast_.tensor_scale != ScaleKind::none;
    view.scales = {scales_, &scale_element(), cast_.block,
                   two_levels ? reinterpret_cast<float*>(tensor_scale_) : nullptr};
    return view;
  }
  [[nodiscard]] Stored stored() const { return {view(), cast_}; }

  template <class Code>
  void put_codes(const Code* codes) {
    std::vector<uint8_t> memory(bytes_);
    std::vector<uint16_t> row(static_cast<size_t>(stride()));
    const size_t row_bytes = bytes_of(*cast_.element, stride());
    const auto mask = static_cast<uint16_t>((uint64_t{1} << cast_.element->bits) - 1);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c)
        row[static_cast<size_t>(c)] = static_cast<uint16_t>(codes[r * cols_ + c]) & mask;
      pack_codes(row, cast_.element->bits,
                 {memory.data() + static_cast<size_t>(r) * row_bytes, row_bytes});
    }
    backend_->upload(codes_, memory.data(), bytes_);
  }
  [[nodiscard]] std::vector<uint16_t> codes() const {
    std::vector<uint8_t> memory(bytes_);
    backend_->download(memory.data(), codes_, bytes_);
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
    backend_->upload(codes_, values, static_cast<size_t>(rows_ * cols_) * sizeof(float));
  }
  [[nodiscard]] std::vector<float> floats() const {
    std::vector<float> values(static_cast<size_t>(rows_ * cols_));
    backend_->download(values.data(), codes_, values.size() * sizeof(float));
    return values;
  }
  /// What values are multiplied by on the way in, of FP32 scales; put as its inverse.
  void put_encode_scales(const float* scales) {
    if (scales_ == nullptr) return;
    std::vector<float> decode;
    for (int64_t i = 0; i < scale_count(); ++i) decode.push_back(1.0f / scales[i]);
    backend_->upload(scales_, decode.data(), scale_bytes_);
  }
  /// Of FP32 scales: what values are multiplied by on the way out. 1 where there are none.
  [[nodiscard]] std::vector<float> decode_scales() const {
    std::vector<float> scales(static_cast<size_t>(scales_ == nullptr ? 1 : scale_count()), 1.0f);
    if (scales_ != nullptr) backend_->download(scales.data(), scales_, scale_bytes_);
    return scales;
  }
  /// Bytes of all scales.
  [[nodiscard]] std::vector<uint8_t> scale_bytes() const {
    std::vector<uint8_t> bytes(scale_bytes_);
    if (scales_ != nullptr) backend_->download(bytes.data(), scales_, scale_bytes_);
    return bytes;
  }

 private:
  [[nodiscard]] int64_t stride() const { return tight_stride(*cast_.element, cols_); }
  [[nodiscard]] const ElementFormat& scale_element() const {
    if (cast_.scale == ScaleKind::e8m0) return element_format("e8m0");
    return cast_.scale == ScaleKind::e4m3 ? element_format("ue4m3") : fp32_format();
  }
  [[nodiscard]] int64_t scale_count() const {
    const Block& block = cast_.block;
    const bool tile = block.kind == Block::Kind::tile;
    const int64_t rows = tile ? block.rows : block.kind == Block::Kind::row ? 1 : rows_;
    const int64_t cols = tile ? block.cols : cols_;
    return (rows_ + rows - 1) / rows * ((cols_ + cols - 1) / cols);
  }

  Backend* backend_;
  Operand cast_;
  int64_t rows_, cols_;
  size_t bytes_ = 0, scale_bytes_ = 0;
  std::byte *codes_ = nullptr, *scales_ = nullptr, *tensor_scale_ = nullptr;
};

}  // namespace ng
