// GGUF, the files of llama.cpp: keys with values, then tensors. Read (part by part, validated) and
// written (streamed, atomic). [interop.md 1.1; llama.cpp ggml/src/gguf.cpp]
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "io/safetensors.h"

namespace ng::io {

/// Of the files that are written here, and the oldest that are read: 2 is laid out as 3.
inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint32_t kOldestGgufVersion = 2;
/// What llama.cpp takes. [llama.cpp ggml.h]
inline constexpr uint32_t kMaxGgufDimensions = 4;
inline constexpr uint64_t kMaxGgufName = 63;

/// A type of tensor: `block` values of a row in `bytes` bytes. [interop.md 1.4]
struct GgufTensorType {
  std::string_view name;  ///< as `dtype` of a tensor: "F32", "Q8_0"
  uint32_t id = 0;
  int64_t block = 1;
  int64_t bytes = 0;
};
/// All that this program reads; gguf_export_types() are written.
[[nodiscard]] std::span<const GgufTensorType> gguf_tensor_types();
/// By name; null where there is none.
[[nodiscard]] const GgufTensorType* find_gguf_type(std::string_view name);

/// Types of values, by their ids in the file.
enum class GgufType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64
};

/// Bytes of a number; 0 of a text or an array.
[[nodiscard]] size_t number_bytes(GgufType type);

/// What a key has: a number or a text as bytes, an array of numbers as bytes, or one of texts.
struct GgufValue {
  GgufType type = GgufType::u32;
  GgufType element = GgufType::u8;  ///< of an array
  std::string bytes;                ///< little-endian, or the text
  std::vector<std::string> texts;   ///< of an array of texts

  static GgufValue of_u32(uint32_t value);
  static GgufValue of_f32(float value);
  static GgufValue of_boolean(bool value);
  static GgufValue of_text(std::string_view text);
  static GgufValue of_texts(std::vector<std::string> texts);
  static GgufValue of_i32s(std::span<const int32_t> values);
  static GgufValue of_f32s(std::span<const float> values);

  friend bool operator==(const GgufValue&, const GgufValue&) = default;
};
using GgufKeys = std::vector<std::pair<std::string, GgufValue>>;

/// Whether a path is a file that begins as GGUF does.
[[nodiscard]] bool is_gguf(const std::string& path);

/// A whole model's keys and tensors, checked when it is opened: every length against what is left
/// of the file, no key or name twice, sizes, types, and offsets, by which tensors may lie in any
/// order and with gaps, but not in each other nor behind the file's end. Of a model that was cut
/// into several files any of them opens all; its keys are those of the first. Throws Error naming
/// file and key or tensor, or the files that are missing.
class Gguf {
 public:
  explicit Gguf(const std::string& path);

  /// Of several files the first.
  [[nodiscard]] const std::string& path() const { return paths_.front(); }
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  [[nodiscard]] const GgufKeys& keys() const { return keys_; }
  /// In the files' order; shapes outermost first. An NVFP4 tensor X.weight beside a tensor X.scale
  /// has that as its `factors`.
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;  ///< null: absent

  /// Typed access; errors name file and key.
  [[nodiscard]] const GgufValue* find_key(std::string_view key) const;  ///< null: absent
  [[nodiscard]] int64_t integer(std::string_view key, int64_t min, int64_t max) const;
  [[nodiscard]] int64_t integer_or(std::string_view key, int64_t min, int64_t max,
                                   int64_t otherwise) const;
  [[nodiscard]] double number_or(std::string_view key, double min, double max,
                                 double otherwise) const;
  [[nodiscard]] bool boolean_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view key) const;
  /// Of an array of integers; absent: none.
  [[nodiscard]] std::vector<int64_t> integers(std::string_view key) const;
  /// Of an array of f32; absent: none.
  [[nodiscard]] std::vector<float> floats(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const std::string& problem,
                           const std::string& remedy) const;

 private:
  Gguf() = default;
  /// One file by itself, whatever it is a part of.
  static Gguf alone(const std::string& path);
  /// All files that this one is a part of.
  [[nodiscard]] std::vector<Gguf> parts() const;
  void join(std::vector<Gguf> parts);
  [[nodiscard]] const GgufValue& at(std::string_view key) const;

  std::vector<std::string> paths_;
  GgufKeys keys_;
  std::vector<SafetensorsEntry> entries_;
};

/// A tensor to be written.
struct GgufTensor {
  std::string name;
  std::string type;            ///< a name of gguf_tensor_types()
  std::vector<int64_t> shape;  ///< outermost first
};

/// Throws Error at `place` naming a tensor that llama.cpp refuses: a name of 64 bytes or more, more
/// than four dimensions, a row that is no whole number of blocks.
void require_gguf_tensor(const GgufTensor& tensor, const std::string& place);

/// Bytes of one, without what follows it up to the alignment.
[[nodiscard]] int64_t gguf_bytes(const GgufTensor& tensor);

/// Writes to a temporary name, syncs, renames. The bytes of all tensors come in order, then
/// commit().
class GgufWriter {
 public:
  /// `keys` and `tensors` each have no name twice.
  GgufWriter(const std::string& path, const GgufKeys& keys, std::vector<GgufTensor> tensors);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  void finish_complete();

  FileWriter file_;
  std::vector<GgufTensor> tensors_;
  size_t tensor_ = 0;       ///< which comes next
  int64_t bytes_left_ = 0;  ///< of it
};

}  // namespace ng::io
