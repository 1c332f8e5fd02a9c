#include "train/run_keys.h"

#include <iterator>

#include "data/chat_template.h"
#include "model/config.h"
#include "recipe/operand_keys.h"
#include "recipe/stored_rules.h"
#include "run/backends.h"

namespace ng {
namespace {

using RunKey = Key<RunConfig>;

constexpr int64_t kMaxSteps = 99'999'999;      // checkpoint names hold eight digits
constexpr int64_t kMaxMicroBatches = 1 << 24;  // that the random counter can tell apart

RunKey text(std::string path, auto get, std::string expected, std::string doc) {
  return text_key<RunConfig>(std::move(path), get, std::move(expected), std::move(doc));
}
RunKey integer(std::string path, auto get, IntegerRange range, std::string doc) {
  return integer_key<RunConfig>(std::move(path), get, range, std::move(doc));
}
RunKey number(std::string path, auto get, NumberRange range, std::string doc) {
  return number_key<RunConfig>(std::move(path), get, range, std::move(doc));
}
RunKey boolean(std::string path, auto get, std::string doc) {
  return boolean_key<RunConfig>(std::move(path), get, std::move(doc));
}
template <class Enum>
RunKey choice(std::string path, auto get, Choices<Enum> choices, std::string doc) {
  return choice_key<RunConfig>(std::move(path), get, std::move(choices), std::move(doc));
}

/// One of a few names.
RunKey word(std::string path, auto get, std::vector<std::string_view> names, std::string doc) {
  RunKey key = text(std::move(path), get, one_of(names), std::move(doc));
  key.read = [=](RunConfig& c, const TomlItem& item) { get(c) = names[read_choice(item, names)]; };
  return key;
}

/// A key is printed only where its text is not empty, and cannot be set to that.
RunKey optional_text(std::string path, auto get, std::string expected, std::string doc) {
  RunKey key = text(std::move(path), get, expected, std::move(doc));
  key.read = [=](RunConfig& c, const TomlItem& item) {
    get(c) = read_text(item);
    if (get(c).empty()) item.refuse("\"\"", expected);
  };
  key.print = [get](const RunConfig& c) { return get(c).empty() ? "" : toml_quote(get(c)); };
  return key;
}

void add_run(Keys<RunConfig>& keys) {
  keys.push_back(text(
      "recipe", [](auto& c) -> auto& { return c.recipe; },
      "a recipe's name or path, or its TOML in several lines", "in which numbers"));
  keys.push_back(integer(
      "seed", [](auto& c) -> auto& { return c.seed; }, {0}, "of every draw"));
  keys.push_back(integer(
      "twin", [](auto& c) -> auto& { return c.twin; }, {0, INT32_MAX},
      "another run of this seed, with the same weights and batches and other draws of rounding"));
}

RunKey preset_key() {
  const std::vector<std::string_view> names = model_preset_names();
  RunKey key = optional_text(
      "model.preset", [](auto& c) -> auto& { return c.model.preset; }, one_of(names),
      "sizes to start from");
  key.read = [=](RunConfig& c, const TomlItem& item) {
    c.model.preset = names[read_choice(item, names)];
  };
  return key;
}

void add_model_sizes(Keys<RunConfig>& keys) {
  keys.push_back(preset_key());
  keys.push_back(optional_text(
      "model.init", [](auto& c) -> auto& { return c.model.init; }, "a model folder",
      "weights and sizes to start from"));
  keys.push_back(choice(
      "model.architecture", [](auto& c) -> auto& { return c.model.architecture; },
      Choices<Architecture>{{{"llama", Architecture::llama},
                             {"gpt2", Architecture::gpt2},
                             {"mistral", Architecture::mistral},
                             {"qwen2", Architecture::qwen2},
                             {"qwen3", Architecture::qwen3}}},
      "what blocks are made of"));
  const auto size = [&](const char* name, auto get, int64_t max, const char* doc) {
    keys.push_back(integer(std::string("model.") + name, get, {1, max}, doc));
  };
  size(
      "layers", [](auto& c) -> auto& { return c.model.layers; }, 10'000, "number of blocks");
  size(
      "heads", [](auto& c) -> auto& { return c.model.heads; }, 65'536, "of attention");
  size(
      "kv_heads", [](auto& c) -> auto& { return c.model.kv_heads; }, 65'536,
      "keys and values, shared by heads / kv_heads heads each");
  size(
      "head_dim", [](auto& c) -> auto& { return c.model.head_dim; }, kMaxHeadDim,
      "size of a head; width / heads unless given");
  size(
      "width", [](auto& c) -> auto& { return c.model.width; }, 1'000'000, "of the residual stream");
  size(
      "ffn", [](auto& c) -> auto& { return c.model.ffn; }, 8'000'000,
      "hidden size of the MLP; 4 width for gpt2, 8/3 width up to a multiple of 128 for llama");
  size(
      "context", [](auto& c) -> auto& { return c.model.context; }, 16'000'000,
      "tokens in a sequence");
  keys.push_back(integer(
      "model.vocab", [](auto& c) -> auto& { return c.model.vocab; }, {0, 16'000'000},
      "rows of the embedding; 0: the tokenizer's"));
}

void add_model_details(Keys<RunConfig>& keys) {
  keys.push_back(boolean(
      "model.tie_embeddings", [](auto& c) -> auto& { return c.model.tie_embeddings; },
      "the head reads the embedding's weights"));
  keys.push_back(boolean(
      "model.attention_bias", [](auto& c) -> auto& { return c.model.attention_bias; },
      "biases in attention (gpt2: true)"));
  keys.push_back(boolean(
      "model.mlp_bias", [](auto& c) -> auto& { return c.model.mlp_bias; },
      "biases in the MLP (gpt2: true)"));
  keys.push_back(boolean(
      "model.norm_bias", [](auto& c) -> auto& { return c.model.norm_bias; },
      "biases in LayerNorm (gpt2: true)"));
  keys.push_back(number(
      "model.norm_eps", [](auto& c) -> auto& { return c.model.norm_eps; }, {0, 1, true, true},
      "added under the root of a norm"));
  keys.push_back(number(
      "model.rope_theta", [](auto& c) -> auto& { return c.model.rope_theta; }, {0, 1e30, true},
      "base of the rotary frequencies (llama)"));
  keys.push_back(choice(
      "model.gelu", [](auto& c) -> auto& { return c.model.gelu; },
      Choices<GeluKind>{{{"tanh", GeluKind::tanh}, {"erf", GeluKind::erf}}},
      "form of GELU (gpt2)"));
  keys.push_back(number(
      "model.init_std", [](auto& c) -> auto& { return c.model.init_std; }, {0, 10},
      "standard deviation of initial weights"));
}

/// A share of the text, or files.
RunKey validation_key() {
  const std::string expected = "a share from 0 to 0.9 of the text, or files";
  return {{.path = "data.validation",
           .expected = expected,
           .doc = "the last part of the text, or other files"},
          [=](RunConfig& c, const TomlItem& item) {
            if (item.value->is_string() || item.value->is_array()) {
              c.data.validation_files = read_texts(item);
              return;
            }
            if (!item.value->is_number()) item.refuse_value(expected);
            c.data.validation_share = read_number(item, {0, 0.9});
            c.data.validation_files.clear();
          },
          [](const RunConfig& c) {
            return c.data.validation_files.empty() ? print_value(c.data.validation_share)
                                                   : print_value(c.data.validation_files);
          }};
}

/// Not one of the keys by which the other kinds of documents are told.
RunKey text_key_key() {
  const std::string expected = "a key other than prompt, completion and messages";
  RunKey key = text(
      "data.text_key", [](auto& c) -> auto& { return c.data.text_key; }, expected,
      "of a .jsonl file: the key whose value is a plain text");
  key.read = [=](RunConfig& c, const TomlItem& item) {
    const std::string name = read_text(item);
    if (name.empty() || name == "prompt" || name == "completion" || name == "messages")
      item.refuse(toml_quote(name), expected);
    c.data.text_key = name;
  };
  return key;
}

void add_data(Keys<RunConfig>& keys) {
  keys.push_back(texts_key<RunConfig>(
      "data.train", [](auto& c) -> auto& { return c.data.train; }, "one or more strings",
      "a prepared text by name (kjv), or files, patterns or folders; *.jsonl: documents, others "
      "text or token ids"));
  keys.push_back(validation_key());
  keys.push_back(integer(
      "data.validation_tokens", [](auto& c) -> auto& { return c.data.validation_tokens; }, {0},
      "validate on no more than the first of them; 0: on all"));
  keys.push_back(text(
      "data.tokenizer", [](auto& c) -> auto& { return c.data.tokenizer; },
      "\"bytes\", or a tokenizer's file or folder",
      "how text becomes tokens; with model.init that of the folder unless given"));
  keys.push_back(text_key_key());
  keys.push_back(choice(
      "data.template", [](auto& c) -> auto& { return c.data.chat; },
      Choices<ChatTemplate>{{std::begin(kChatTemplates), std::end(kChatTemplates)}},
      "how \"messages\" of a .jsonl file become text"));
  keys.push_back(choice(
      "data.tokens", [](auto& c) -> auto& { return c.data.tokens; },
      Choices<TokensAs>{{{"auto", TokensAs::automatic}, {"uint16", TokensAs::uint16}}},
      "uint16: files are bare token ids of two bytes where they do not say what they are"));
  keys.push_back(choice(
      "data.special_tokens", [](auto& c) -> auto& { return c.data.special_tokens; },
      Choices<SpecialTokens>{{std::begin(kSpecialTokens), std::end(kSpecialTokens)}},
      "what the content of one is in texts that are no chats"));
}

RunKey betas_key() {
  const std::string expected = "[beta1, beta2], each at least 0 and, in FP32, below 1";
  return {{.path = "train.betas", .expected = expected, .doc = "decay of Adam's two moments"},
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

void add_length(Keys<RunConfig>& keys) {
  keys.push_back(integer(
      "train.steps", [](auto& c) -> auto& { return c.train.steps; }, {1, kMaxSteps},
      "updates of the weights"));
  keys.push_back(integer(
      "train.batch", [](auto& c) -> auto& { return c.train.batch; }, {1, 1 << 20},
      "sequences in a micro-batch"));
  keys.push_back(integer(
      "train.length", [](auto& c) -> auto& { return c.train.length; }, {0, 16'000'000},
      "tokens of a sequence; 0: the model's context"));
  keys.push_back(integer(
      "train.accumulate", [](auto& c) -> auto& { return c.train.accumulate; },
      {1, kMaxMicroBatches},
      "micro-batches of each rank in a step; a run that goes on keeps those of all ranks"));
  keys.push_back(boolean(
      "train.document_mask", [](auto& c) -> auto& { return c.train.document_mask; },
      "attention stays within documents: a token sees none of another that is packed beside it"));
  keys.push_back(integer(
      "train.tensor_parallel", [](auto& c) -> auto& { return c.train.tensor_parallel; },
      {1, 1 << 16}, "neighbouring ranks that divide every layer, and have their batches together"));
}

void add_optimizer(Keys<RunConfig>& keys) {
  keys.push_back(number(
      "train.lr", [](auto& c) -> auto& { return c.train.lr; }, {0, 1000}, "largest learning rate"));
  keys.push_back(number(
      "train.min_lr", [](auto& c) -> auto& { return c.train.min_lr; }, {0, 1000},
      "rate at the end; lr / 10 unless given"));
  keys.push_back(integer(
      "train.warmup", [](auto& c) -> auto& { return c.train.warmup; }, {0, kMaxSteps},
      "steps in which the rate rises"));
  keys.push_back(choice(
      "train.schedule", [](auto& c) -> auto& { return c.train.schedule; },
      Choices<ScheduleKind>{{{"cosine", ScheduleKind::cosine},
                             {"linear", ScheduleKind::linear},
                             {"wsd", ScheduleKind::wsd},
                             {"constant", ScheduleKind::constant}}},
      "how the rate falls"));
  keys.push_back(number(
      "train.decay_fraction", [](auto& c) -> auto& { return c.train.decay_fraction; }, {0, 1, true},
      "wsd: the last part of training, in which the rate falls"));
  keys.push_back(choice(
      "train.decay_shape", [](auto& c) -> auto& { return c.train.decay_shape; },
      Choices<DecayShape>{{{"linear", DecayShape::linear}, {"sqrt", DecayShape::sqrt}}},
      "wsd: along a line, or as 1 - sqrt(x)"));
  keys.push_back(number(
      "train.weight_decay", [](auto& c) -> auto& { return c.train.weight_decay; }, {0, 1000},
      "decoupled, on tensors of two dimensions"));
  keys.push_back(betas_key());
  keys.push_back(number(
      "train.eps", [](auto& c) -> auto& { return c.train.eps; }, {1e-30, 1},
      "added to the root of the second moment"));
  keys.push_back(number(
      "train.clip", [](auto& c) -> auto& { return c.train.clip; }, {0, 1e30},
      "largest norm of all gradients; 0: no clipping"));
}

/// "policy", or what weights may be stored in.
RunKey reference_storage_key() {
  const std::string path = "dpo.reference_storage";
  return {{.path = path,
           .expected = "\"policy\", a format name or a table of operand keys",
           .doc = "in what the reference's weights are stored: as the policy's, or so",
           .takes_table = true},
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
  keys.push_back(choice(
      "train.objective", [](auto& c) -> auto& { return c.train.objective; },
      Choices<Objective>{{{"cross_entropy", Objective::cross_entropy}, {"dpo", Objective::dpo}}},
      "what is made small: of texts, or of pairs of a chosen and a rejected completion"));
  keys.push_back(number(
      "dpo.beta", [](auto& c) -> auto& { return c.dpo.beta; }, {0, 1000, true},
      "how much a log-probability's distance from the reference's counts"));
  keys.push_back(number(
      "dpo.label_smoothing", [](auto& c) -> auto& { return c.dpo.label_smoothing; },
      {0, 0.5, false, true}, "probability that a pair is the wrong way round"));
  keys.push_back(reference_storage_key());
}

void add_house_keeping(Keys<RunConfig>& keys) {
  keys.push_back(integer(
      "train.validate_every", [](auto& c) -> auto& { return c.train.validate_every; },
      {0, kMaxSteps}, "steps between validations; 0: at the end only"));
  keys.push_back(integer(
      "train.checkpoint_every", [](auto& c) -> auto& { return c.train.checkpoint_every; },
      {0, kMaxSteps}, "steps between checkpoints; 0: at the end only"));
  keys.push_back(integer(
      "train.keep_checkpoints", [](auto& c) -> auto& { return c.train.keep_checkpoints; },
      {1, 1'000'000}, "newest checkpoints that stay"));
  keys.push_back(choice(
      "train.recompute", [](auto& c) -> auto& { return c.train.recompute; },
      Choices<RecomputePolicy>{
          {{"none", RecomputePolicy::none}, {"block", RecomputePolicy::block}}},
      "run blocks a second time instead of keeping their activations"));
  keys.push_back(choice(
      "train.deterministic", [](auto& c) -> auto& { return c.train.deterministic; },
      Choices<Determinism>{{{"ranks", Determinism::ranks}, {"global", Determinism::global}}},
      "for what bits are the same: one number of ranks; or any, gradients sent in FP32"));
  keys.push_back(integer(
      "train.threads", [](auto& c) -> auto& { return c.train.threads; }, {0, 4096},
      "0: all cores"));
  keys.push_back(integer(
      "train.watchdog", [](auto& c) -> auto& { return c.train.watchdog; }, {0, 1'000'000},
      "seconds that a rank waits for the others before it ends the run; 0: for ever"));
  keys.push_back(word(
      "train.backend", [](auto& c) -> auto& { return c.train.backend; }, backend_names(),
      "who computes"));
  keys.push_back(word(
      "train.save_dtype", [](auto& c) -> auto& { return c.train.save_dtype; },
      {"F32", "BF16", "F16"}, "of the weights in model/, rounded once from what is stored"));
}

void add_lora(Keys<RunConfig>& keys) {
  keys.push_back(integer(
      "lora.rank", [](auto& c) -> auto& { return c.lora.adapters.rank; }, {0, 65'536},
      "of the adapters that are trained beside frozen weights; 0: all weights are trained"));
  keys.push_back(number(
      "lora.alpha", [](auto& c) -> auto& { return c.lora.adapters.alpha; }, {0, 1e6, true},
      "adapters count alpha / rank times"));
  keys.push_back(texts_key<RunConfig>(
      "lora.targets", [](auto& c) -> auto& { return c.lora.adapters.targets; },
      "one or more patterns", "layers with adapters: attn.q, mlp.*, blocks.3.*"));
  keys.push_back(choice(
      "lora.save", [](auto& c) -> auto& { return c.lora.save; },
      Choices<RunLora::Save>{
          {{"merged", RunLora::Save::merged}, {"adapter", RunLora::Save::adapter}}},
      "what model/ is: the whole model, or a PEFT folder of the adapters"));
}

}  // namespace

const Keys<RunConfig>& run_keys() {
  static const Keys<RunConfig> keys = [] {
    Keys<RunConfig> all;
    add_run(all);
    add_model_sizes(all);
    add_model_details(all);
    add_data(all);
    add_length(all);
    add_optimizer(all);
    add_objective(all);
    add_lora(all);
    add_house_keeping(all);
    return all;
  }();
  return keys;
}

}  // namespace ng
