// Text to token ids and back.
#include "tokenizer/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "base/files.h"
#include "bind.h"
#include "infer/open_model.h"
#include "io/gguf/gguf.h"
#include "tokenizer/tokenizer_file.h"

namespace ng::python {
namespace {

/// Decoding and encoding change nothing, so any number of threads may use one.
class PythonTokenizer {
 public:
  explicit PythonTokenizer(std::unique_ptr<Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  [[nodiscard]] std::vector<int32_t> encode(const nb::bytes& text,
                                            const std::string& special) const {
    const SpecialTokens as = special_tokens_of(special);
    const std::string_view bytes(text.c_str(), text.size());
    const Unlocked unlocked;
    return tokenizer_->encode(bytes, as);
  }
  [[nodiscard]] nb::bytes decode(const std::vector<int32_t>& ids) const {
    std::string text;
    {
      const Unlocked unlocked;
      text = tokenizer_->decode(ids);
    }
    return nb::bytes(text.data(), text.size());
  }
  void save(const std::string& folder) const {
    make_folders(folder);
    tokenizer_->save(folder);
  }
  [[nodiscard]] const Tokenizer& get() const { return *tokenizer_; }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

std::unique_ptr<Tokenizer> opened(const std::string& name) {
  const bool is_gguf = name != "bytes" && is_file(name) && io::is_gguf(name);
  return is_gguf ? open_model_tokenizer(name) : open_tokenizer(name);
}

/// Throws Error for what the command line's parser would refuse.
void check(const BpeTraining& training, const std::vector<std::string>& files) {
  const auto refuse = [](const char* key, const std::string& found, const std::string& remedy) {
    throw Error({.place = "", .key = key, .problem = found, .remedy = remedy});
  };
  if (files.empty()) refuse("files", "none", "at least one text");
  if (training.vocab > kMaxTrainedVocab)
    refuse("size", std::to_string(training.vocab), fmt::format("at most {}", kMaxTrainedVocab));
  if (training.min_frequency < 0)
    refuse("min_frequency", std::to_string(training.min_frequency), "0 or more");
  for (const std::string& token : training.special_tokens)
    if (token.empty()) refuse("special", "an empty token", "at least a character");
}

/// A tokenizer.json goes to `out`, unless that is empty.
PythonTokenizer* trained(const std::vector<std::string>& files, const std::string& out,
                         const BpeTraining& training, int64_t threads) {
  check(training, files);
  const Threads workers = threads_of(threads);
  const Unlocked unlocked;
  if (!out.empty()) require_tokenizer_target(out, files);
  const TrainedBpe bpe =
      train_bpe_of_files(files, training, workers, [](int64_t, int64_t) { look_for_signals(); });
  std::string json = tokenizer_json_of(bpe, training);
  if (!out.empty()) write_file_atomically(out, json);
  return new PythonTokenizer(tokenizer_of_json(std::move(json)));
}

}  // namespace

void add_tokenizer(nb::module_& module) {
  nb::class_<PythonTokenizer>(module, "Tokenizer")
      .def(
          "__init__",
          [](PythonTokenizer* self, const std::string& name) {
            const Unlocked unlocked;
            new (self) PythonTokenizer(opened(name));
          },
          "name"_a)
      .def("encode", &PythonTokenizer::encode, "text"_a, "special_tokens"_a)
      .def("decode", &PythonTokenizer::decode, "ids"_a)
      .def("save", &PythonTokenizer::save, "folder"_a)
      .def_prop_ro("name", [](const PythonTokenizer& t) { return std::string(t.get().name()); })
      .def_prop_ro("vocab", [](const PythonTokenizer& t) { return t.get().vocab(); })
      .def_prop_ro("end_token", [](const PythonTokenizer& t) { return t.get().end_token(); })
      .def_prop_ro("bos_token", [](const PythonTokenizer& t) { return t.get().bos_token(); })
      .def_prop_ro("pad_token", [](const PythonTokenizer& t) { return t.get().pad_token(); })
      .def_prop_ro("text_begin", [](const PythonTokenizer& t) {
        const std::span<const int32_t> begin = t.get().text_begin();
        return std::vector<int32_t>(begin.begin(), begin.end());
      });
  module.def(
      "train_tokenizer",
      [](const std::vector<std::string>& files, const std::string& out, int64_t size,
         const std::string& pattern, int64_t min_frequency, bool nfc,
         std::vector<std::string> special, int64_t threads) {
        return trained(files, out,
                       {.vocab = size,
                        .min_frequency = min_frequency,
                        .pattern = pattern,
                        .compose = nfc,
                        .special_tokens = std::move(special)},
                       threads);
      },
      "files"_a, "out"_a, "size"_a, "pattern"_a, "min_frequency"_a, "nfc"_a, "special"_a,
      "threads"_a, nb::rv_policy::take_ownership);
}

}  // namespace ng::python
