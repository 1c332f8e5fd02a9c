// safetensors: read (part by part, validated) and write (streamed, atomic).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ng::io {

struct GgufTensorType;

/// Values of a tensor from element `first` on, in row-major order.
using ReadValues = std::function<void(int64_t first, std::span<float> values)>;

/// One tensor of a file, which it keeps open.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", "U8", ...; of a GGUF file "Q8_0", "Q4_K", "MXFP4", ... too
  std::vector<int64_t> shape;
  size_t bytes = 0;
  std::string file;  ///< its path, for errors
  std::shared_ptr<const ReadFile> source;
  uint64_t begin = 0;  ///< of its data in the file
  /// Of a GGUF file's NVFP4: the tensor's own scale, or one of each of its matrices; none: 1.
  std::vector<float> factors{};
  /// Of codes whose scales are other tensors: makes what reads the values that they stand for,
  /// which has scales in memory. Throws Error where that is not known. None: values stand by
  /// themselves.
  std::function<ReadValues()> open_values{};

  /// Its bytes from `offset` on. Throws Error where the file has become shorter.
  void read(size_t offset, std::span<std::byte> out) const;
  [[nodiscard]] int64_t elements() const;
  /// Throws Error at the tensor of its file.
  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy) const;
  /// Throws Error there where one of its values, weights, is not finite.
  void require_finite(std::span<const float> values) const;
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
  /// Tensor `index` of entries() as other values, under its name.
  void replace(size_t index, SafetensorsEntry entry);

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Whether there is a file at `path` that Safetensors reads, with this key in its metadata: by
/// which a command knows what it wrote.
[[nodiscard]] bool has_metadata(const std::string& path, const std::string& key);

/// How F64 becomes FP32. odd: what is inexact gets an odd mantissa, so that rounding the result
/// once more, to at most 22 bits, is rounding once. [Boldo and Melquiond, 2008]
enum class FromF64 : uint8_t { nearest, odd };

/// Values of a tensor as FP32, part by part: F64, F32, all floats of at most 16 bits that the
/// format table knows, integers, GGUF's blocks times `factors`, what `open_values` makes. Throws
/// Error for another dtype.
class FloatReader {
 public:
  explicit FloatReader(const SafetensorsEntry& entry, FromF64 rounding = FromF64::nearest);
  /// Elements [first, first + out.size()) in row-major order.
  void read(int64_t first, std::span<float> out) const;

 private:
  void read_packed(int64_t first, std::span<float> out) const;
  void read_blocks(int64_t first, std::span<float> out) const;
  void scale_blocks(int64_t first, std::span<float> values) const;

  const SafetensorsEntry* entry_;
  FromF64 rounding_;
  ReadValues values_;                       ///< of codes that have scales
  const GgufTensorType* blocks_ = nullptr;  ///< null: not stored in blocks
  int code_bits_ = 0;
  std::vector<float> table_;  ///< value of each code; empty for dtypes without codes
};

/// All values by FloatReader.
[[nodiscard]] std::vector<float> to_floats(const SafetensorsEntry& entry);

/// Whether two tensors have one dtype, shape and bytes.
[[nodiscard]] bool are_same(const SafetensorsEntry& a, const SafetensorsEntry& b);

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

/// The same for data that does not lie in memory as it is stored: `tensors` without `data`, then
/// the bytes of all of them in order, then commit().
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                    const std::map<std::string, std::string>& metadata = {});
  void write(std::span<const std::byte> bytes);
  /// In any order instead: bytes from `offset` on of tensor `index` of the list. Every byte is
  /// written once, by one of the two ways.
  void write_at(size_t index, uint64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  FileWriter file_;
  std::vector<uint64_t> begins_;  ///< of each tensor in the file, and the end of the last
  uint64_t bytes_left_;
};

}  // namespace ng::io
