#include "train/run_keys.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>

#include "model/config.h"
#include "recipe/operand_keys.h"
#include "recipe/stored_rules.h"
#include "run/backends.h"
#include "train/run_data_keys.h"
#include "train/table_keys.h"

namespace ng {
namespace {

constexpr int64_t kMaxMicroBatches = 1 << 24;  // that the random counter can tell apart

void add_run(Keys<RunConfig>& keys) {
  TableKeys run(keys, "", std::identity());
  run.text("recipe", &RunConfig::recipe,
           "a recipe's name or path, its TOML in several lines, or a table of its keys",
           "in which numbers the run computes, stores and sends; recipe.KEY says one key of it")
      .takes_table = true;
  keys.back().type = "string or table";
  keys.back().read = [](RunConfig& c, const TomlItem& item) {
    if (!item.value->is_table()) c.recipe = read_text(item);  // keys: SaidRecipe
  };
  keys.back().print = [](const RunConfig& c) {
    return c.said_recipe.has_keys() ? inline_toml(parse_toml(c.recipe, "recipe"))
                                    : toml_quote(c.recipe);
  };
  run.integer("seed", &RunConfig::seed, {0},
              "seed of every draw: first weights, batches, rounding");
  run.integer(
      "twin", &RunConfig::twin, {0, INT32_MAX},
      "another run of this seed, with the same weights and batches and other draws of rounding");
}

void add_model_sizes(Keys<RunConfig>& keys) {
  TableKeys model(keys, "model.", &RunConfig::model);
  const std::vector<std::string_view> presets = model_preset_names();
  model.optional_text("preset", &RunModel::preset, one_of(presets), "sizes to start from").example =
      toml_quote(presets.front());
  keys.back().read = [=](RunConfig& c, const TomlItem& item) {
    c.model.preset = presets[read_choice(item, presets)];
  };
  model.optional_text("init", &RunModel::init, "a model folder", "weights and sizes to start from")
      .example = "\"runs/first/model\"";
  model.choice("architecture", &RunModel::architecture,
               Choices<Architecture>{{{"llama", Architecture::llama},
                                      {"gpt2", Architecture::gpt2},
                                      {"mistral", Architecture::mistral},
                                      {"qwen2", Architecture::qwen2},
                                      {"qwen3", Architecture::qwen3}}},
               "what blocks are made of");
  model.integer("layers", &RunModel::layers, {1, 10'000}, "number of blocks");
  model.integer("heads", &RunModel::heads, {1, 65'536}, "attention heads of a block");
  model.integer("kv_heads", &RunModel::kv_heads, {1, 65'536},
                "keys and values, shared by heads / kv_heads heads each");
  model.integer("head_dim", &RunModel::head_dim, {1, kMaxHeadDim},
                "size of a head; width / heads unless given");
  model.integer("width", &RunModel::width, {1, 1'000'000}, "values of the residual stream");
  model.integer(
      "ffn", &RunModel::ffn, {1, 8'000'000},
      "hidden size of the MLP; 4 width for gpt2, 8/3 width up to a multiple of 128 for llama");
  model.integer("context", &RunModel::context, {1, 16'000'000}, "tokens in a sequence");
  model.integer("vocab", &RunModel::vocab, {0, 16'000'000},
                "rows of the embedding; 0: the tokenizer's");
}

RunKey full_layers_key() {
  const std::string expected = "a list of layers, the first of which is 0";
  return {{.path = "model.full_layers",
           .expected = expected,
           .doc = "layers that do without the window (qwen2, qwen3)",
           .type = "integers",
           .example = "[0, 2]",
           .beside = "architecture = \"qwen2\", sliding_window = 64"},
          [=](RunConfig& c, const TomlItem& item) {
            const toml::array* array = item.value->as_array();
            if (array == nullptr) item.refuse_value(expected);
            c.model.full_layers.clear();
            for (const toml::node& node : *array) {
              const std::optional<int64_t> layer = node.value_exact<int64_t>();
              if (!layer || *layer < 0) item.refuse_value(expected);
              c.model.full_layers.push_back(*layer);
            }
          },
          [](const RunConfig& c) {
            const std::vector<int64_t>& layers = c.model.full_layers;
            return layers.empty() ? "" : fmt::format("[{}]", fmt::join(layers, ", "));
          }};
}

void add_model_details(Keys<RunConfig>& keys) {
  TableKeys model(keys, "model.", &RunConfig::model);
  model.boolean("tie_embeddings", &RunModel::tie_embeddings,
                "the head reads the embedding's weights");
  model.boolean("attention_bias", &RunModel::attention_bias, "biases in attention (gpt2: true)");
  model.boolean("mlp_bias", &RunModel::mlp_bias, "biases in the MLP (gpt2: true)");
  model.boolean("norm_bias", &RunModel::norm_bias, "biases in LayerNorm (gpt2: true)");
  model
      .number("norm_eps", &RunModel::norm_eps, {0, 1, true, true}, "added under the root of a norm")
      .equation = "RMSNorm: y = gain · x / √(mean x² + norm_eps); LayerNorm: of x - mean x";
  model
      .number("rope_theta", &RunModel::rope_theta, {0, 1e30, true},
              "base of the rotary frequencies (llama)")
      .equation = "angle of pair i at position t = t · rope_theta^(-2 · i / head_dim)";
  KeyRow& window =
      model.integer("sliding_window", &RunModel::sliding_window, {1, 16'000'000},
                    "tokens that attention sees, the own included; all before it unless given "
                    "(mistral, qwen2, qwen3)");
  window.example = "128";
  window.beside = "architecture = \"mistral\"";
  keys.push_back(full_layers_key());
  model.choice("gelu", &RunModel::gelu,
               Choices<GeluKind>{{{"tanh", GeluKind::tanh}, {"erf", GeluKind::erf}}},
               "form of GELU (gpt2)");
  model.number("init_std", &RunModel::init_std, {0, 10}, "standard deviation of initial weights");
}

/// N of "N epochs" or "1 epoch"; 0 of anything else.
double epochs_of(const std::optional<std::string>& text) {
  constexpr double kMost = 1e9;
  char* end = nullptr;
  const double epochs = text ? std::strtod(text->c_str(), &end) : 0;
  const std::string_view unit = text ? end : "";
  const bool is_known = unit == " epochs" || unit == " epoch";
  return is_known && epochs > 0 && epochs <= kMost ? epochs : 0;
}

/// Steps, or epochs of which they are counted once the text is known.
RunKey steps_key() {
  const IntegerRange range{1, kMaxSteps};
  const std::string expected = text_of(range) + ", or \"N epochs\", N above 0";
  return {{.path = "train.steps",
           .expected = expected,
           .doc = "updates of the weights; an epoch is as many tokens as there are to train on",
           .type = "integer or string",
           .example = "\"2 epochs\""},
          [=](RunConfig& c, const TomlItem& item) {
            const std::optional<int64_t> steps = item.value->value_exact<int64_t>();
            c.train.epochs = steps ? 0 : epochs_of(item.value->value_exact<std::string>());
            if (steps ? *steps < range.min || *steps > range.max : c.train.epochs == 0)
              item.refuse_value(expected);
            if (steps) c.train.steps = *steps;
          },
          [](const RunConfig& c) {
            return c.train.epochs > 0 ? fmt::format("\"{} epochs\"", c.train.epochs)
                                      : print_value(c.train.steps);
          }};
}

RunKey betas_key() {
  const std::string expected = "[beta1, beta2], each at least 0 and, in FP32, below 1";
  return {{.path = "train.betas",
           .expected = expected,
           .doc = "decay of Adam's two moments",
           .type = "numbers",
           .equation = "m = β1 · m + (1 - β1) · g, v = β2 · v + (1 - β2) · g²"},
          [=](RunConfig& c, const TomlItem& item) {
            const toml::array* array = item.value->as_array();
            if (array == nullptr || array->size() != 2) item.refuse_value(expected);
            double betas[2];
            for (size_t i = 0; i < 2; ++i) {
              const std::optional<double> beta = (*array)[i].value<double>();
              if (!(*array)[i].is_number() || !beta || !(*beta >= 0) ||
                  static_cast<float>(*beta) >= 1)  // as the update computes with it
                item.refuse_value(expected);
              betas[i] = *beta;
            }
            c.train.beta1 = betas[0];
            c.train.beta2 = betas[1];
          },
          [](const RunConfig& c) { return fmt::format("[{}, {}]", c.train.beta1, c.train.beta2); }};
}

/// A step's batch, and how its update is made.
void add_steps(Keys<RunConfig>& keys) {
  TableKeys train(keys, "train.", &RunConfig::train);
  keys.push_back(steps_key());
  train.integer("batch", &RunTrain::batch, {1, 1 << 20}, "sequences in a micro-batch");
  train.integer("length", &RunTrain::length, {0, 16'000'000},
                "tokens of a sequence; 0: the model's context");
  train.integer(
      "accumulate", &RunTrain::accumulate, {1, kMaxMicroBatches},
      "micro-batches of each rank in a step; a run that goes on keeps those of all ranks");
  train.boolean("document_mask", &RunTrain::document_mask,
                "attention stays within documents: a token sees none of another that is packed "
                "beside it");
  train.integer("tensor_parallel", &RunTrain::tensor_parallel, {1, 1 << 16},
                "neighbouring ranks that divide every layer, and have their batches together");
  train.number("lr", &RunTrain::lr, {0, 1000}, "largest learning rate");
  train.number("min_lr", &RunTrain::min_lr, {0, 1000}, "rate at the end; lr / 10 unless given");
  train
      .integer("warmup", &RunTrain::warmup, {0, kMaxSteps},
               "steps in which the learning rate rises")
      .equation = "rate = lr · (step + 1) / (warmup + 1) while step < warmup";
  train
      .choice("schedule", &RunTrain::schedule,
              Choices<ScheduleKind>{{{"cosine", ScheduleKind::cosine},
                                     {"linear", ScheduleKind::linear},
                                     {"wsd", ScheduleKind::wsd},
                                     {"constant", ScheduleKind::constant}}},
              "how the learning rate falls")
      .equation =
      "rate = min_lr + (lr - min_lr) · share left; of what is done, x from 0 to 1 after warmup, "
      "cosine leaves (1 + cos πx) / 2, linear 1 - x, wsd 1 until it decays, constant 1";
  train.number("decay_fraction", &RunTrain::decay_fraction, {0, 1, true},
               "wsd: the last part of training, in which the rate falls");
  train.choice("decay_shape", &RunTrain::decay_shape,
               Choices<DecayShape>{{{"linear", DecayShape::linear}, {"sqrt", DecayShape::sqrt}}},
               "wsd: along a line, or as 1 - sqrt(x)");
  train
      .number("weight_decay", &RunTrain::weight_decay, {0, 1000},
              "decoupled, on tensors of two dimensions")
      .equation = "w ← w · (1 - rate · weight_decay)";
  keys.push_back(betas_key());
  train.number("eps", &RunTrain::eps, {1e-30, 1}, "added to the root of the second moment")
      .equation = "w ← w - rate · m̂ / (√v̂ + eps)";
  train.number("clip", &RunTrain::clip, {0, 1e30}, "largest norm of all gradients; 0: no clipping")
      .equation = "g ← g · min(1, clip / norm of all gradients)";
}

/// "policy", or what weights may be stored in.
RunKey reference_storage_key() {
  const std::string path = "dpo.reference_storage";
  return {{.path = path,
           .expected = "\"policy\", a format name or a table of operand keys",
           .doc = "in what the reference's weights are stored: as the policy's, or so",
           .takes_table = true,
           .type = kOperandType,
           .example = "\"bf16\"",
           .before = "train.objective = \"dpo\"\n"},
          [=](RunConfig& c, const TomlItem& item) {
            c.dpo.reference_storage = {};
            if (item.value->is_string() && read_text(item) == "policy") return;
            Operand storage = operand_of("fp32");
            read_operand(storage, item);
            check_stored_cast(storage, path, item.place);
            if (storage.rounding != Rounding::nearest)
              item.refuse("rounded stochastically", "nearest: a reference draws nothing");
            c.dpo.reference_storage = storage;
          },
          [](const RunConfig& c) {
            const std::optional<Operand>& storage = c.dpo.reference_storage;
            return storage ? print_operand(*storage) : toml_quote("policy");
          }};
}

void add_objective(Keys<RunConfig>& keys) {
  TableKeys train(keys, "train.", &RunConfig::train);
  train.choice(
      "objective", &RunTrain::objective,
      Choices<Objective>{{{"cross_entropy", Objective::cross_entropy}, {"dpo", Objective::dpo}}},
      "what is made small: of texts, or of pairs of a chosen and a rejected completion");
  TableKeys dpo(keys, "dpo.", &RunConfig::dpo);
  const char* const loss =
      "loss = -(1 - ε) · log σ(h) - ε · log σ(-h), ε = label_smoothing, h = beta · "
      "(log-probability "
      "of chosen - of rejected, each less the reference's)";
  dpo.number("beta", &DpoSettings::beta, {0, 1000, true},
             "how much a log-probability's distance from the reference's counts")
      .equation = loss;
  dpo.number("label_smoothing", &DpoSettings::label_smoothing, {0, 0.5, false, true},
             "probability that a pair is the wrong way round")
      .equation = loss;
  keys.push_back(reference_storage_key());
}

void add_house_keeping(Keys<RunConfig>& keys) {
  TableKeys train(keys, "train.", &RunConfig::train);
  train.integer("validate_every", &RunTrain::validate_every, {0, kMaxSteps},
                "steps between validations; 0: at the end only");
  train.integer("checkpoint_every", &RunTrain::checkpoint_every, {0, kMaxSteps},
                "steps between checkpoints; 0: at the end only");
  train.integer("keep_checkpoints", &RunTrain::keep_checkpoints, {1, 1'000'000},
                "newest checkpoints that stay");
  train.choice(
      "recompute", &RunTrain::recompute,
      Choices<RecomputePolicy>{{kRecomputeWords.begin(), kRecomputeWords.end()}},
      "what backward makes again instead of keeping it: inputs of layers, or whole blocks");
  train.choice(
      "deterministic", &RunTrain::deterministic,
      Choices<Determinism>{{{"ranks", Determinism::ranks}, {"global", Determinism::global}}},
      "for what bits are the same: one number of ranks; or any, gradients sent in FP32");
  train.integer("threads", &RunTrain::threads, {0, 4096},
                "threads of each process, which change no bit; 0: all cores");
  train.integer("watchdog", &RunTrain::watchdog, {0, 1'000'000},
                "seconds that a rank waits for the others before it ends the run; 0: for ever");
  train.word("backend", &RunTrain::backend, backend_names(),
             "what computes: kernels, or plain loops");
  train.word("save_dtype", &RunTrain::save_dtype, {"F32", "BF16", "F16"},
             "dtype of the weights in model/, rounded once from what is stored");
}

void add_cuda_keys(Keys<RunConfig>& keys) {
  TableKeys cuda(keys, "cuda.", &RunConfig::cuda);
  cuda.integer("thread_order", &RunCuda::thread_order, {0},
               "of an emulated card, which tests have: seed of the order in which its threads go "
               "on, which changes no bit; 0: all in turn")
      .example = "3";
  keys.back().print = [](const RunConfig& c) {
    return c.cuda.thread_order == 0 ? "" : print_value(c.cuda.thread_order);
  };
}

}  // namespace

const Keys<RunConfig>& run_keys() {
  static const Keys<RunConfig> keys = [] {
    Keys<RunConfig> all;
    add_run(all);
    add_model_sizes(all);
    add_model_details(all);
    add_data_keys(all);
    add_steps(all);
    add_objective(all);
    add_lora_keys(all);
    add_house_keeping(all);
    add_cuda_keys(all);
    return all;
  }();
  return keys;
}

}  // namespace ng
