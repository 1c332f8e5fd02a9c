// A model folder: its logits, its text, its loss on a text.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "bind.h"
#include "data/text_files.h"
#include "infer/evaluate.h"
#include "infer/generator.h"
#include "infer/logits.h"
#include "infer/open_model.h"
#include "io/hf/folder.h"
#include "io/model_files.h"
#include "io/model_of_run.h"
#include "io/model_settings.h"
#include "report/recipe_text.h"

namespace ng::python {
namespace {

using Ids = Vector<int32_t>;

/// Threads take turns: a run has one arena.
class PythonModel {
 public:
  PythonModel(const io::ModelName& name, const std::string& recipe, const std::string& backend,
              Threads threads)
      : name_(as_call([&] { return io::model_path(name.path); }), name.base),
        folder_(name_.path),
        open_(as_call([&] {
          return open_model(name_, Recipe::load(recipe), {.backend = backend, .threads = threads});
        })) {}

  [[nodiscard]] const ModelConfig& config() const { return open_.model->config(); }
  [[nodiscard]] const OpenModel& open() const { return open_; }
  /// Of adapters, that of their base where they have none.
  [[nodiscard]] std::string tokenizer_place() const { return io::tokenizer_place(name_); }

  /// What of its files is not read, and what they do not say.
  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> sentences = open_.left_out;
    for (std::string& sentence : missing_of_training(open_))
      sentences.push_back(std::move(sentence));
    if (const auto sentence = note_of_tokenizer(name_)) sentences.push_back(*sentence);
    return sentences;
  }

  [[nodiscard]] std::vector<float> logits(std::span<const int32_t> ids) {
    require_ids(ids);
    if (std::ssize(ids) > config().context)
      refuse_ids(std::to_string(ids.size()), fmt::format("at most {}", config().context));
    const std::scoped_lock turn(mutex_);
    if (!logits_) logits_.emplace(*open_.run, *open_.model);
    return logits_->read(ids);
  }

  [[nodiscard]] std::vector<int32_t> ends() const { return end_tokens_of(name_, config().vocab); }

  /// Up to one of `ends`, which is the last then. `heartbeat` is called after each token.
  [[nodiscard]] std::vector<int32_t> generate(std::span<const int32_t> prompt, int64_t count,
                                              const SamplingSettings& settings,
                                              const std::vector<int32_t>& ends,
                                              const std::function<void()>& heartbeat) {
    as_call([&] { validate(settings); });
    require_ids(prompt);
    const std::scoped_lock turn(mutex_);
    if (!generator_) generator_.emplace(*open_.run, *open_.model);
    std::vector<int32_t> made;
    generator_->generate(prompt, count, settings, [&](int32_t id) {
      made.push_back(id);
      heartbeat();
      return std::find(ends.begin(), ends.end(), id) == ends.end();
    });
    return made;
  }

  /// The loss, and the files that it is of.
  [[nodiscard]] Json evaluate(const std::string& data, const TextRules& rules, Prefix prefix,
                              Documents documents, int64_t batch) {
    const std::unique_ptr<Tokenizer> tokenizer = open_model_tokenizer(name_);
    const Corpus corpus = as_call([&] {
      return corpus_to_evaluate(data, *tokenizer, rules, prefix, documents,
                                [](int64_t, int64_t) { look_for_signals(); });
    });
    io::require_vocabulary(folder_, config(), tokenizer->vocab());
    require_batch(config(), {.sequences = batch, .length = config().context}, "batch", "");
    const std::scoped_lock turn(mutex_);
    Json json =
        evaluation_json(ng::evaluate(*open_.run, *open_.model, corpus, batch, config().context,
                                     [](int64_t, int64_t) { look_for_signals(); }),
                        config().context);
    json["data"] = list_of(corpus.origin().validation);
    return json;
  }

  void save(const std::string& folder, const std::string& dtype) {
    refuse_input(folder, folder_);
    refuse_input(folder, io::sizes_place(name_));
    const std::unique_ptr<Tokenizer> tokenizer = open_model_tokenizer(name_);
    const io::ModelSettings settings = io::read_model_settings(name_);
    const std::scoped_lock turn(mutex_);
    io::write_hf_folder(folder, config(),
                        [&](size_t index, int64_t row, std::span<float> values) {
                          open_.model->read_row(*open_.run, index, row, values);
                        },
                        {.dtype = dtype, .tokenizer = tokenizer.get(), .settings = &settings});
  }

  [[nodiscard]] std::string config_text() const {
    const io::ModelSettings settings = io::whole_model_settings(name_, config().vocab);
    return io::hf_config_text(config(), "float32", &settings);
  }

 private:
  [[noreturn]] void refuse_ids(const std::string& problem, const std::string& remedy) const {
    throw Error({.place = folder_, .key = "ids", .problem = problem, .remedy = remedy});
  }
  void require_ids(std::span<const int32_t> ids) const {
    const std::string remedy = fmt::format("at least one id from 0 to {}", config().vocab - 1);
    if (ids.empty()) refuse_ids("empty", remedy);
    for (const int32_t id : ids)
      if (id < 0 || id >= config().vocab) refuse_ids(std::to_string(id), remedy);
  }

  io::ModelName name_;
  std::string folder_;
  OpenModel open_;
  std::mutex mutex_;
  std::optional<LogitsReader> logits_;
  std::optional<Generator> generator_;
};

Values logits(PythonModel& model, const Ids& ids) {
  std::vector<float> values;
  {
    const Unlocked unlocked;
    values = model.logits({ids.data(), ids.size()});
  }
  return array_of(std::move(values), {ids.size(), static_cast<size_t>(model.config().vocab)});
}

/// What generate() is told beside the prompt.
std::vector<int32_t> generate(PythonModel& model, const Ids& prompt, int64_t tokens,
                              const SamplingSettings& settings, bool ignore_eos) {
  const Unlocked unlocked;
  const std::vector<int32_t> ends = ignore_eos ? std::vector<int32_t>() : model.ends();
  return model.generate({prompt.data(), prompt.size()}, tokens, settings, ends,
                        [] { look_for_signals(); });
}

TextRules text_rules(const std::string& text_key, const std::string& chat,
                     const std::string& tokens, const std::string& special,
                     const std::vector<std::string>& ignored_keys, bool no_bos) {
  require_word("tokens", tokens, {"auto", "uint16"});
  const std::optional<ChatTemplate> known = find_chat_template(chat);
  if (!known)
    throw Error({.place = "",
                 .key = "template",
                 .problem = "\"" + chat + "\"",
                 .remedy = "none, " + chat_templates_with(has_messages)});
  return {.documents = {.text_key = text_key,
                        .chat = *known,
                        .chat_name = "template",
                        .special = special_tokens_of(special),
                        .begin = no_bos ? TextBegin::bare : TextBegin::as_the_tokenizer_says,
                        .ignored_keys = ignored_keys,
                        .ignored_name = "ignored_keys"},
          .bare_uint16 = tokens == "uint16"};
}

nb::dict evaluate(PythonModel& model, const std::string& data, const TextRules& rules,
                  bool prefix_end, bool document_mask, int64_t batch) {
  Json json;
  {
    const Unlocked unlocked;
    json = model.evaluate(data, rules, prefix_end ? Prefix::as_lm_eval : Prefix::none,
                          document_mask ? Documents::apart : Documents::joined, batch);
  }
  json.update(report::numbers_json(model.open().recipe, model.open().phase, model.config()));
  return dict_of(json);
}

nb::dict config(const PythonModel& model) { return dict_of(Json::parse(model.config_text())); }

}  // namespace

void add_model(nb::module_& module) {
  nb::class_<PythonModel>(module, "Model")
      .def(
          "__init__",
          [](PythonModel* self, const std::string& folder, const std::string& base,
             const std::string& recipe, const std::string& backend, int64_t threads) {
            const Threads workers = threads_of(threads);
            const Unlocked unlocked;
            new (self) PythonModel({folder, base}, recipe, backend, workers);
          },
          "folder"_a, "base"_a, "recipe"_a, "backend"_a, "threads"_a)
      .def_prop_ro("config", config)
      .def_prop_ro("tokenizer_place", &PythonModel::tokenizer_place)
      .def_prop_ro("missing", [](const PythonModel& m) { return m.missing(); })
      .def("logits", logits, "ids"_a)
      .def(
          "generate",
          [](PythonModel& model, const Ids& prompt, int64_t tokens, double temperature,
             int64_t top_k, double top_p, uint64_t seed, int64_t vocab, bool ignore_eos) {
            return generate(model, prompt, tokens,
                            {.temperature = temperature,
                             .top_k = top_k,
                             .top_p = top_p,
                             .vocab = vocab,
                             .seed = seed},
                            ignore_eos);
          },
          "prompt"_a, "tokens"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a, "vocab"_a,
          "ignore_eos"_a)
      .def_prop_ro("end_tokens", &PythonModel::ends)
      .def(
          "evaluate",
          [](PythonModel& model, const std::string& data, const std::string& text_key,
             const std::string& chat, const std::string& tokens, const std::string& special,
             const std::vector<std::string>& ignored_keys, bool prefix_end, bool no_bos,
             bool document_mask, int64_t batch) {
            return evaluate(model, data,
                            text_rules(text_key, chat, tokens, special, ignored_keys, no_bos),
                            prefix_end, document_mask, batch);
          },
          "data"_a, "text_key"_a, "template"_a, "tokens"_a, "special_tokens"_a, "ignored_keys"_a,
          "prefix_end"_a, "no_bos"_a, "document_mask"_a, "batch"_a)
      .def("save", &PythonModel::save, "folder"_a, "dtype"_a, nb::call_guard<Unlocked>());
}

}  // namespace ng::python
