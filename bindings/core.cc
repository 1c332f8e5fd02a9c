// narrowgauge._core: the module, made of its parts.
#include "bind.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/version.h"
#include "interpreter_lock.h"

namespace ng::python {
namespace {

/// Flags become keywords: "--scale-rule floor" is "scale_rule floor".
std::string without_flags(std::string text) {
  for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at)) {
    text.erase(at, 2);
    for (; at < text.size() && text[at] != ' ' && text[at] != ','; ++at)
      if (text[at] == '-') text[at] = '_';
  }
  return text;
}

}  // namespace

Threads threads_of(int64_t count) {
  constexpr int64_t kMost = 4096;
  if (count < 0 || count > kMost)
    throw Error({.place = "",
                 .key = "threads",
                 .problem = std::to_string(count),
                 .remedy = fmt::format("0 (one for each core) to {}", kMost)});
  return {count > 0 ? static_cast<int>(count) : available_cores()};
}

void require_word(const char* key, const std::string& word,
                  std::span<const std::string_view> known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  throw Error({.place = "",
               .key = key,
               .problem = "\"" + word + "\"",
               .remedy = fmt::format("\"{}\"", fmt::join(known, "\" or \""))});
}

SpecialTokens special_tokens_of(const std::string& word) {
  require_word("special_tokens", word, {"recognized", "text"});
  return *find_special_tokens(word);
}

Error as_keyword(const Error& error) {
  const Error::Parts& parts = error.parts();
  std::string place = parts.place == "cast" ? "" : parts.place, key = parts.key;
  if (place.starts_with("--set ") && !key.empty()) place = "";  // it says no more than the key
  if (place.starts_with("--")) {
    key = key.empty() ? place : place + " " + key;
    place = "";
  }
  key = without_flags(key);
  return Error({.place = place,
                .key = key == "sr_bits" ? "random_bits" : key,
                .problem = without_flags(parts.problem),
                .remedy = without_flags(parts.remedy)});
}

void look_for_signals() {
  const Locked locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

nb::object python_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return nb::none();
    case Json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return nb::int_(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return nb::int_(json.get<uint64_t>());
    case Json::value_t::number_float:
      return nb::float_(json.get<double>());
    case Json::value_t::array: {
      nb::list list;
      for (const Json& value : json) list.append(python_of(value));
      return list;
    }
    case Json::value_t::object: {
      nb::dict dict;
      for (const auto& [key, value] : json.items()) dict[key.c_str()] = python_of(value);
      return dict;
    }
    default: {
      const std::string& text = json.get_ref<const std::string&>();
      return nb::steal(PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "replace"));
    }
  }
}

nb::dict dict_of(const Json& json) { return nb::cast<nb::dict>(python_of(json)); }

}  // namespace ng::python

NB_MODULE(_core, module) {
  namespace python = ng::python;
  nanobind::set_leak_warnings(false);  // a thread may still have something when the process ends
  python::wait_for_computing_at_exit();
  module.doc() = "NarrowGauge's C++ side; narrowgauge is what to import.";
  module.def("version", [] { return std::string(ng::version()); });
  python::add_errors(module);
  python::add_arrays(module);
  python::add_formats(module);
  python::add_quantized(module);
  python::add_products(module);
  python::add_packing(module);
  python::add_inspect(module);
  python::add_recipes(module);
  python::add_gradients(module);
  python::add_layers(module);
  python::add_on_device(module);
  python::add_tokenizer(module);
  python::add_model(module);
  python::add_export(module);
  python::add_trained_model(module);
  python::add_trainer(module);
  python::add_update_forms(module);
  python::add_updates(module);
  python::add_weight_noise(module);
}
