#include "run/transfer.h"

#include <cstring>

#include "base/error.h"
#include "format/codec.h"

namespace ng {
namespace {

// Bytes of the first `count` elements of a row, where those are whole.
size_t row_bytes(const ConstView& view, size_t count) {
  NG_CHECK(view.element->bits % 8 == 0 && !view.has_scales(), view.element->name);
  NG_CHECK(static_cast<int64_t>(count) <= view.cols, count, view.cols);
  return bytes_of(*view.element, static_cast<int64_t>(count));
}

}  // namespace

void download_row(const Backend& backend, const ConstView& view, int64_t row,
                  std::span<float> out) {
  const size_t bytes = row_bytes(view, out.size());
  const std::byte* from = view.slice(row, 1).data;
  if (view.is(fp32_format())) return backend.download(out.data(), from, bytes);
  std::vector<std::byte> stored(bytes);
  backend.download(stored.data(), from, bytes);
  const size_t size = bytes / std::max<size_t>(out.size(), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t code = 0;  // little endian, as everything here
    std::memcpy(&code, stored.data() + i * size, size);
    out[i] = decode(*view.element, code);
  }
}

std::vector<float> download(const Backend& backend, const ConstView& view) {
  std::vector<float> values(static_cast<size_t>(view.size()));
  const auto cols = static_cast<size_t>(view.cols);
  for (int64_t row = 0; row < view.rows; ++row)
    download_row(backend, view, row,
                 std::span(values).subspan(static_cast<size_t>(row) * cols, cols));
  return values;
}

void upload_row(Backend& backend, const View& view, int64_t row, std::span<const float> values) {
  const size_t bytes = row_bytes(view, values.size());
  std::byte* to = view.slice(row, 1).data;
  if (view.is(fp32_format())) return backend.upload(to, values.data(), bytes);
  std::vector<std::byte> stored(bytes);
  const size_t size = bytes / std::max<size_t>(values.size(), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t code = encode(*view.element, values[i], {}, OverflowRule::special);
    std::memcpy(stored.data() + i * size, &code, size);
  }
  backend.upload(to, stored.data(), bytes);
}

}  // namespace ng
