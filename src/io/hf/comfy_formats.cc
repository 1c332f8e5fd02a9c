#include "io/hf/comfy_formats.h"

#include "base/error.h"
#include "base/json.h"
#include "io/hf/scale_names.h"

namespace ng::io {
namespace {

constexpr size_t kMaxMarkBytes = 1 << 16;
constexpr std::string_view kProductSetting = "full_precision_matrix_mult";  // of no weight

/// What of a layer's description is not read; empty: E4M3 or E5M2 times scales that are floats.
std::string unread_of(const JsonObject& layer) {
  for (const auto& [key, value] : layer.value().items()) {
    if (key == "format" && value.is_string() && value.get<std::string>().starts_with("float8_"))
      continue;
    if (key == kProductSetting || value.is_null() || value == false) continue;
    return fmt::format("\"{}\": {}", key, brief(value));
  }
  return layer.has("format") ? "" : "no format";
}

}  // namespace

UnreadModules comfy_modules(const Safetensors& file) {
  UnreadModules modules;
  const auto found = file.metadata().find(kComfyMetadata);
  if (found == file.metadata().end()) return modules;
  const Json json = parse_json(found->second, file.path());
  const JsonObject whole(json, file.path(), fmt::format("{}.", kComfyMetadata));
  if (!whole.has("layers")) return modules;
  const JsonObject layers = whole.object("layers");
  for (const auto& [name, layer] : layers.value().items())
    if (const std::string unread = unread_of(layers.object(name)); !unread.empty())
      modules.emplace(name, unread);
  return modules;
}

void add_comfy_module(const SafetensorsEntry& mark, UnreadModules* modules) {
  if (mark.dtype != "U8" || mark.bytes > kMaxMarkBytes)
    mark.refuse(fmt::format("{} of {} bytes", mark.dtype, mark.bytes), "U8, a short JSON object");
  std::string text(mark.bytes, '\0');
  mark.read(0, std::as_writable_bytes(std::span(text)));
  const Json json = parse_json(text, fmt::format("{}: \"{}\"", mark.file, mark.name));
  const JsonObject layer(json, mark.file, brief(Json(mark.name)) + ".");
  if (const std::string unread = unread_of(layer); !unread.empty())
    modules->emplace(module_of_tensor(mark.name), unread);
}

}  // namespace ng::io
