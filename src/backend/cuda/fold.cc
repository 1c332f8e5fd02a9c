#include "backend/cuda/fold.h"

#include <cmath>

#include "base/error.h"
#include "format/codec.h"

namespace ng::cuda {

FoldWindow fold_window(const ElementFormat& element, const ElementFormat& container) {
  NG_CHECK(element.kind == ElementKind::floating && element.specials == Specials::none,
           element.name);
  if (element.mantissa_bits > container.mantissa_bits) return {};
  return {std::ilogb(min_subnormal(container)) - std::ilogb(min_subnormal(element)),
          std::ilogb(max_value(container) / max_value(element))};
}

}  // namespace ng::cuda
