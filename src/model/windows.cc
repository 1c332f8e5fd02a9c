#include "model/windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace ng {

int64_t Windows::of(int64_t layer) const {
  return layers.empty() || layers[static_cast<size_t>(layer)] ? size : 0;
}

Windows windows_that_bind(Windows windows, int64_t context) {
  const auto has = [&](bool wanted) {
    return std::find(windows.layers.begin(), windows.layers.end(), wanted) != windows.layers.end();
  };
  const bool in_some = windows.layers.empty() || has(true);
  if (windows.size >= context || !in_some) return {};
  if (!has(false)) windows.layers.clear();
  return windows;
}

std::string text_of(const Windows& windows) {
  std::string text = fmt::format("{} tokens", windows.size);
  if (windows.layers.empty()) return text;
  const auto having = std::count(windows.layers.begin(), windows.layers.end(), true);
  return text + fmt::format(" in {} of {} layers", having, windows.layers.size());
}

}  // namespace ng
