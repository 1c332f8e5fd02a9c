// The text that a finished run shows: what the model goes on with after words it was trained on.
#pragma once

#include <string>

#include "data/training_data.h"
#include "model/model.h"
#include "run/run.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// A few tokens of the training text and what the model makes of them; drawn by the run's seed.
[[nodiscard]] std::string sample_text(Run& run, Model& model, const TrainingData& data,
                                      const Tokenizer& tokenizer);

}  // namespace ng
