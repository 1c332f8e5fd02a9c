// What the parts of narrowgauge._core share. Each part is one file with a function that adds it to
// the module; what computes does so without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/json_fwd.h"
#include "base/threads.h"
#include "interpreter_lock.h"
#include "tokenizer/special_tokens.h"

namespace ng::python {

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "x"_a

void add_arrays(nb::module_& module);
void add_errors(nb::module_& module);
void add_export(nb::module_& module);
void add_formats(nb::module_& module);
void add_gradients(nb::module_& module);
void add_inspect(nb::module_& module);
void add_layers(nb::module_& module);
void add_model(nb::module_& module);
void add_on_device(nb::module_& module);
void add_packing(nb::module_& module);
void add_products(nb::module_& module);
void add_quantized(nb::module_& module);
void add_recipes(nb::module_& module);
void add_tokenizer(nb::module_& module);
void add_trained_model(nb::module_& module);
void add_trainer(nb::module_& module);
void add_update_forms(nb::module_& module);
void add_updates(nb::module_& module);
void add_weight_noise(nb::module_& module);

/// Arrays that Python hands over, as they are: no copy is made of another type or layout.
using FloatMatrix = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;
template <class Value>
using Vector = nb::ndarray<const Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using Values = nb::ndarray<nb::numpy, float>;

/// Of the keyword `threads`. 0: one for each core. Throws Error for what is out of range.
[[nodiscard]] Threads threads_of(int64_t count);

/// Throws Error where a keyword's word is none of `known`.
void require_word(const char* key, const std::string& word,
                  std::span<const std::string_view> known);
inline void require_word(const char* key, const std::string& word,
                         std::initializer_list<std::string_view> known) {
  require_word(key, word, std::span(known.begin(), known.size()));
}

/// What the keyword special_tokens says.
[[nodiscard]] SpecialTokens special_tokens_of(const std::string& word);

/// The error of a command line as one of a call: flags are keywords.
[[nodiscard]] Error as_keyword(const Error& error);

/// Calls `body`; its errors become ones of a call.
template <class Body>
auto as_call(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    throw as_keyword(error);
  }
}

/// For work that takes long, between its parts: takes the interpreter's lock and throws what a
/// signal's handler raised, KeyboardInterrupt where it was Ctrl-C.
void look_for_signals();

/// Memory that becomes an array of Python's without a copy. What is in it has to be written.
template <class Value>
class NewArray {
 public:
  explicit NewArray(std::vector<size_t> shape)
      : shape_(std::move(shape)),
        size_(std::accumulate(shape_.begin(), shape_.end(), size_t{1}, std::multiplies<>())),
        values_(std::make_unique_for_overwrite<Value[]>(size_)) {
    prefer_huge_pages(values_.get(), size_ * sizeof(Value));
  }

  [[nodiscard]] Value* data() { return values_.get(); }
  [[nodiscard]] std::span<Value> span() { return {values_.get(), size_}; }
  /// Takes the memory away.
  [[nodiscard]] nb::ndarray<nb::numpy, Value> array() {
    Value* const values = values_.release();
    const nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<Value*>(p); });
    return {values, shape_.size(), shape_.data(), owner};
  }

 private:
  std::vector<size_t> shape_;
  size_t size_;
  std::unique_ptr<Value[]> values_;
};

/// An array that owns `values`.
template <class Value>
[[nodiscard]] nb::ndarray<nb::numpy, Value> array_of(std::vector<Value> values,
                                                     std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<Value>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<decltype(kept)>(p); });
  return {kept->data(), shape, owner};
}

/// A view of memory that lives as long as `owner`; it cannot be written through.
template <class Value>
[[nodiscard]] nb::ndarray<nb::numpy, const Value> view_of(const std::vector<Value>& values,
                                                          std::initializer_list<size_t> shape,
                                                          nb::handle owner) {
  return {values.data(), shape, owner};
}

/// A JSON value as Python has it: dict, list, str, int, float, bool, None.
[[nodiscard]] nb::object python_of(const Json& json);
/// The same of an object.
[[nodiscard]] nb::dict dict_of(const Json& json);

}  // namespace ng::python
