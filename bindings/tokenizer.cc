// Text to token ids and back.
#include "tokenizer/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "bind.h"

namespace ng::python {
namespace {

/// Decoding and encoding change nothing, so any number of threads may use one.
class PythonTokenizer {
 public:
  explicit PythonTokenizer(const std::string& name) : tokenizer_(open_tokenizer(name)) {}

  [[nodiscard]] std::vector<int32_t> encode(const nb::bytes& text) const {
    const std::string_view bytes(text.c_str(), text.size());
    const nb::gil_scoped_release unlocked;
    return tokenizer_->encode(bytes);
  }
  [[nodiscard]] nb::bytes decode(const std::vector<int32_t>& ids) const {
    std::string text;
    {
      const nb::gil_scoped_release unlocked;
      text = tokenizer_->decode(ids);
    }
    return nb::bytes(text.data(), text.size());
  }
  [[nodiscard]] const Tokenizer& get() const { return *tokenizer_; }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

void add_tokenizer(nb::module_& module) {
  nb::class_<PythonTokenizer>(module, "Tokenizer")
      .def(nb::init<const std::string&>(), "name"_a)
      .def("encode", &PythonTokenizer::encode, "text"_a)
      .def("decode", &PythonTokenizer::decode, "ids"_a)
      .def_prop_ro("name", [](const PythonTokenizer& t) { return std::string(t.get().name()); })
      .def_prop_ro("vocab", [](const PythonTokenizer& t) { return t.get().vocab(); })
      .def_prop_ro("end_token", [](const PythonTokenizer& t) { return t.get().end_token(); });
}

}  // namespace ng::python
