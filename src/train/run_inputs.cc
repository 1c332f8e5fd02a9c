#include "train/run_inputs.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/hf_folder.h"

namespace ng {

Corpus open_run_corpus(const RunConfig& config, const Tokenizer& tokenizer) {
  DataConfig data;
  data.place = config.place;
  data.train = config.data.train;
  data.validation_share = config.data.validation_share;
  data.validation = config.data.validation_files;
  return open_corpus(data, tokenizer);
}

// The corpus knows how long it is, the run file what it is made of.
void require_run_length(const Corpus& corpus, const RunConfig& config, int64_t context) {
  try {
    corpus.require_length(context);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    const RunData& data = config.data;
    const bool training = parts.key == "data.train" || data.validation_files.empty();
    parts.key +=
        fmt::format(" = {}", fmt::join(training ? data.train : data.validation_files, ", "));
    throw Error(parts);
  }
}

ModelConfig run_model_config(const RunConfig& config, const Tokenizer& tokenizer) {
  const bool from_folder = !config.model.init.empty();
  const ModelConfig model =
      from_folder ? io::read_hf_config(config.model.init) : config.model_config(tokenizer.vocab());
  require_vocabulary(model, tokenizer.vocab(), from_folder ? config.model.init : config.place);
  return model;
}

}  // namespace ng
