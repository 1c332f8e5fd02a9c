// Arrays of other types as the FP32 that everything is rounded from.
#include <narrowgauge/formats.h>

#include <atomic>

#include "base/error.h"
#include "bind.h"
#include "math/round_to_odd.h"
#include "pieces.h"

namespace ng::python {
namespace {

Values floats_of_doubles(const Vector<double>& x, int64_t threads) {
  const Threads workers = threads_of(threads);
  NewArray<float> values({x.size()});
  {
    const Unlocked unlocked;
    const double* const from = x.data();
    for_pieces(workers, x.size(), [&](size_t first, size_t count) {
      std::transform(from + first, from + first + count, values.data() + first, rounded_to_odd);
    });
  }
  return values.array();
}

template <class Code>
Values floats_of_codes(const narrowgauge::Element& element, const Vector<Code>& codes,
                       int64_t threads) {
  const Threads workers = threads_of(threads);
  const std::vector<float> table = element.values();
  NewArray<float> values({codes.size()});
  std::atomic<bool> has_stranger = false;
  {
    const Unlocked unlocked;
    const Code* const from = codes.data();
    for_pieces(workers, codes.size(), [&](size_t first, size_t count) {
      for (size_t i = first; i < first + count; ++i) {
        const bool is_known = from[i] < table.size();
        if (!is_known) has_stranger = true;
        values.data()[i] = is_known ? table[from[i]] : 0.0f;
      }
    });
  }
  if (has_stranger)
    throw Error({.place = "",
                 .key = "codes",
                 .problem = fmt::format("one that {} does not have", element.short_name()),
                 .remedy = fmt::format("codes below {}", table.size())});
  return values.array();
}

}  // namespace

void add_arrays(nb::module_& module) {
  module.def("floats_of_doubles", floats_of_doubles, "x"_a.noconvert(), "threads"_a,
             "As FP32 from which rounding to at most 16 bits is rounding once.");
  module.def("floats_of_codes", floats_of_codes<uint8_t>, "element"_a, "codes"_a.noconvert(),
             "threads"_a, "What codes of an element stand for.");
  module.def("floats_of_codes", floats_of_codes<uint16_t>, "element"_a, "codes"_a.noconvert(),
             "threads"_a);
}

}  // namespace ng::python
