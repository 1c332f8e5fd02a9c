#include "backend/cpu/types.h"

#include <fmt/format.h>

namespace ng::cpu {
namespace {

[[noreturn]] void refuse(std::string_view operation, const ConstView& view,
                         std::string_view beside) {
  throw Unsupported(fmt::format("cpu: {} of {}{}{}", operation, view.element->name,
                                view.has_scales() ? " with scales" : "", beside));
}

bool is_plain(const ConstView& view, const ElementFormat& element) {
  return view.is(element) && !view.has_scales();
}

}  // namespace

void require_fp32(std::string_view operation, Views views) {
  for (const ConstView& view : views)
    if (view.rows > 0 && !is_plain(view, fp32_format()))
      refuse(operation, view, " where float32 is needed");
}

void require_values(std::string_view operation, Views views) {
  for (const ConstView& view : views)
    if (view.rows > 0 && !is_plain(view, fp32_format()) && !is_plain(view, bf16_format()))
      refuse(operation, view, "");
}

void require_one_type(std::string_view operation, Views views) {
  require_values(operation, views);
  const ElementFormat* first = nullptr;
  for (const ConstView& view : views) {
    if (view.rows == 0) continue;
    if (first != nullptr && !view.is(*first))
      refuse(operation, view, fmt::format(" beside {}", first->name));
    first = view.element;
  }
}

}  // namespace ng::cpu
