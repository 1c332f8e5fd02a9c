// safetensors: read (memory-mapped, validated) and write (streamed, atomic).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ng::io {

/// One tensor of a file; `data` points into the file's mapping.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", "U8", ...
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  size_t bytes = 0;

  [[nodiscard]] int64_t elements() const;
};

/// A whole file, checked when it is opened: header size, JSON, dtypes, shapes, offsets that
/// neither overlap nor leave the file. Throws Error naming file, tensor and value.
class Safetensors {
 public:
  explicit Safetensors(const std::string& path);
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) noexcept;
  ~Safetensors();

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const;  ///< in file order
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;  ///< null: absent
  [[nodiscard]] const SafetensorsEntry& at(std::string_view name) const;    ///< throws Error

 private:
  struct Mapping;
  std::unique_ptr<Mapping> mapping_;
};

/// Values of an F64, F32, BF16, F16, F8_E4M3, F8_E5M2 or integer tensor as FP32 (F64 rounds).
[[nodiscard]] std::vector<float> to_floats(const SafetensorsEntry& entry);

/// Values of an integer tensor (U8 ... I64); throws Error for another dtype.
[[nodiscard]] std::vector<int64_t> to_integers(const SafetensorsEntry& entry);

/// What to write; `data` must stay valid until write_safetensors returns.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// Writes to a temporary name, syncs, renames. Tensors appear in the given order.
void write_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace ng::io
