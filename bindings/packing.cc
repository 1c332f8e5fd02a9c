// Codes and scales as they lie in files and in the memory of other libraries.
#include <narrowgauge/packing.h>

#include "bind.h"

namespace ng::python {
namespace {

using Bytes = nb::ndarray<nb::numpy, uint8_t>;
using Codes = nb::ndarray<nb::numpy, uint16_t>;

template <class Value>
std::span<const Value> span_of(const Vector<Value>& values) {
  return {values.data(), values.size()};
}

template <class Value>
nb::ndarray<nb::numpy, Value> all_of(std::vector<Value> values) {
  const size_t size = values.size();
  return array_of(std::move(values), {size});
}

narrowgauge::Gguf gguf_of(const std::string& kind) {
  require_word("format", kind, {"mxfp4", "nvfp4"});
  return kind == "mxfp4" ? narrowgauge::Gguf::mxfp4 : narrowgauge::Gguf::nvfp4;
}

Bytes pack_codes(const Vector<uint16_t>& codes, int bits) {
  return all_of(narrowgauge::pack_codes(span_of(codes), bits));
}

Codes unpack_codes(const Vector<uint8_t>& bytes, int bits, int64_t count) {
  return all_of(narrowgauge::unpack_codes(span_of(bytes), bits, count));
}

Bytes pack_gguf(const std::string& kind, const Vector<uint16_t>& codes,
                const Vector<uint8_t>& scale_codes) {
  return all_of(narrowgauge::pack_gguf(gguf_of(kind), span_of(codes), span_of(scale_codes)));
}

nb::tuple unpack_gguf(const std::string& kind, const Vector<uint8_t>& blocks) {
  narrowgauge::CodesAndScales parts = narrowgauge::unpack_gguf(gguf_of(kind), span_of(blocks));
  return nb::make_tuple(all_of(std::move(parts.codes)), all_of(std::move(parts.scales)));
}

}  // namespace

void add_packing(nb::module_& module) {
  module.def("pack_codes", pack_codes, "codes"_a, "bits"_a);
  module.def("unpack_codes", unpack_codes, "bytes"_a, "bits"_a, "count"_a);
  module.def("pack_gguf", pack_gguf, "kind"_a, "codes"_a, "scale_codes"_a);
  module.def("unpack_gguf", unpack_gguf, "kind"_a, "blocks"_a);
}

}  // namespace ng::python
