#include "infer/logits.h"

#include "run/transfer.h"

namespace ng {

LogitsReader::LogitsReader(Run& run, Model& model)
    : run_(run),
      model_(model),
      tokens_(run.persistent_values<int32_t>("tokens to read",
                                             static_cast<size_t>(model.config().context))) {}

std::vector<float> LogitsReader::read(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  NG_CHECK(count > 0 && count <= model_.config().context, count);
  const Batch batch{.inputs = {tokens_, tokens.size()},
                    .targets = {},
                    .mask = {},
                    .at = {.sequences = 1, .length = count, .first = 0},
                    .target_count = 0,
                    .cache = nullptr};
  std::vector<float> logits;
  const auto body = [&] {
    const EvaluationMode mode(run_);
    const Tensor y = model_.logits(run_, batch);
    if (!run_.recording()) logits = download(run_.backend(), y);
    model_.forget_step();
  };
  const Program program = run_.record(body);
  run_.reserve({&program});
  run_.upload(tokens_, tokens);
  run_.replay(program, body);
  return logits;
}

}  // namespace ng
