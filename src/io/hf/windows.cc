#include "io/hf/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "model/architecture.h"

namespace ng::io {
namespace {

constexpr const char *kWindow = "sliding_window", *kIsUsed = "use_sliding_window",
                     *kFirstLayer = "max_window_layers", *kLayerTypes = "layer_types";
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

// Of a missing key. [transformers 5.24, configuration_mistral.py, configuration_qwen2.py]
constexpr int64_t kDefaultWindow = 4096, kDefaultFirstLayer = 28;
// What never binds may be as large as it likes.
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

/// Mistral has the window that its key names; others, only where another key says that it is used.
bool is_by_key_alone(const ModelConfig& config) {
  return parts_of(config.architecture).windows == WindowLayers::all;
}

/// 0: none.
int64_t read_size(const JsonObject& json, const ModelConfig& config) {
  if (!is_by_key_alone(config) && !json.boolean_or(kIsUsed, false)) return 0;
  if (!json.value().contains(kWindow)) return kDefaultWindow;
  return json.has(kWindow) ? json.integer(kWindow, 1, kLargest) : 0;
}

/// Of each layer that the list names, whether it has the window.
std::vector<bool> read_layer_types(const JsonObject& json) {
  const std::string known = fmt::format("\"{}\" or \"{}\"", kFull, kSliding);
  const Json& types = json.at(kLayerTypes);
  if (!types.is_array()) json.refuse(kLayerTypes, brief(types), "a list of " + known);
  std::vector<bool> layers;
  for (const Json& type : types) {
    const std::string text = type.is_string() ? type.get<std::string>() : "";
    if (text != kFull && text != kSliding)
      json.refuse(kLayerTypes, brief(type) + " is not supported", known);
    layers.push_back(text == kSliding);
  }
  return layers;
}

/// The layers that the file lists; none where it has no list.
std::optional<std::vector<bool>> listed_layers(const JsonObject& json, const ModelConfig& config,
                                               int64_t size) {
  if (!json.has(kLayerTypes)) return {};
  std::vector<bool> layers = read_layer_types(json);
  if (std::ssize(layers) != config.layers)
    json.refuse(kLayerTypes, fmt::format("{} layers", layers.size()),
                fmt::format("num_hidden_layers ({})", config.layers));
  const bool any_slides = std::find(layers.begin(), layers.end(), true) != layers.end();
  if (size == 0 && any_slides)
    json.refuse(kLayerTypes, fmt::format("\"{}\" without a window", kSliding),
                fmt::format("{}, or \"{}\" alone",
                            is_by_key_alone(config) ? "sliding_window"
                                                    : "use_sliding_window and sliding_window",
                            kFull));
  return layers;
}

/// All from max_window_layers on.
std::vector<bool> layers_from(const JsonObject& json, const ModelConfig& config) {
  const int64_t first = json.integer_or(kFirstLayer, 0, kLargest, kDefaultFirstLayer);
  std::vector<bool> layers;
  for (int64_t layer = 0; layer < config.layers; ++layer) layers.push_back(layer >= first);
  return layers;
}

/// transformers reads no layer_types of such a file, vLLM does: they must agree.
Windows windows_of_all(const JsonObject& json, const ModelConfig& config, int64_t size,
                       const std::optional<std::vector<bool>>& listed) {
  const Windows windows = windows_that_bind({.size = size}, config.context);
  if (windows.any() && listed && std::find(listed->begin(), listed->end(), false) != listed->end())
    json.refuse(kLayerTypes,
                fmt::format("\"{}\" beside {} {}, which {} has in all layers", kFull, kWindow, size,
                            parts_of(config.architecture).name),
                fmt::format("\"{}\" alone, or {} null", kSliding, kWindow));
  return windows;
}

}  // namespace

Windows read_hf_windows(const JsonObject& json, const ModelConfig& config) {
  const int64_t size = read_size(json, config);
  std::optional<std::vector<bool>> layers = listed_layers(json, config, size);
  if (size == 0) return {};
  if (is_by_key_alone(config)) return windows_of_all(json, config, size, layers);
  if (!layers) layers = layers_from(json, config);
  const Windows windows =
      windows_that_bind({.size = size, .layers = std::move(*layers)}, config.context);
  const ArchitectureParts& parts = parts_of(config.architecture);
  if (windows.any() && parts.windows == WindowLayers::none)
    json.refuse(kIsUsed, fmt::format("true with windows of {}", text_of(windows)),
                fmt::format("false, as {} has no windows", parts.name));
  return windows;
}

void add_hf_windows(const ModelConfig& config, OrderedJson* json) {
  const Windows& windows = config.windows;
  const WindowLayers which = parts_of(config.architecture).windows;
  if (which == WindowLayers::all)
    (*json)[kWindow] = windows.any() ? OrderedJson(windows.size) : OrderedJson();
  if (which != WindowLayers::any) return;
  (*json)[kIsUsed] = windows.any();
  if (!windows.any()) return;
  OrderedJson types = OrderedJson::array();
  int64_t first = config.layers;
  for (int64_t layer = config.layers - 1; layer >= 0; --layer)
    if (windows.of(layer) > 0) first = layer;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    types.push_back(windows.of(layer) > 0 ? kSliding : kFull);
  (*json)[kWindow] = windows.size;
  (*json)[kFirstLayer] = first;  // for readers of no list: wrong where full layers follow
  (*json)[kLayerTypes] = types;
}

}  // namespace ng::io
