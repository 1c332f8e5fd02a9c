#include "train/run_config.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "base/files.h"
#include "base/setting.h"
#include "base/text.h"
#include "model/architecture.h"
#include "train/run_files.h"
#include "train/run_keys.h"
#include "train/run_paths.h"

namespace ng {
namespace {

/// A document that a run is read from. Shared: tables of a recipe's keys live on in it.
using TomlDocument = std::shared_ptr<const toml::table>;

TomlDocument shared(toml::table document) {
  return std::make_shared<const toml::table>(std::move(document));
}

const GivenAt* last_given(const RunConfig& config, std::initializer_list<std::string_view> keys) {
  const GivenAt* last = nullptr;
  for (const std::string_view key : keys)
    if (const auto found = config.given.find(key);
        found != config.given.end() && (last == nullptr || found->second.order > last->order))
      last = &found->second;
  return last;
}

/// Of a value that contradicts others: the place is where the last of `keys` was given, since what
/// came before was right without it.
[[noreturn]] void refuse(const RunConfig& config, std::initializer_list<std::string_view> keys,
                         std::string problem, std::string remedy) {
  throw Error({.place = config.place_of(keys),
               .key = std::string(*keys.begin()),
               .problem = std::move(problem),
               .remedy = std::move(remedy)});
}

/// A recipe by name starts anew, a table's keys go over it; others than the file's stay for
/// set_recipe().
void read_recipe(RunConfig& config, const TomlDocument& document, size_t order) {
  const auto item = find_item(*document, "recipe", "");
  if (!item) return;
  if (const toml::table* keys = item->value->as_table()) {
    const RecipeDocument part{{document, keys}, std::string(kRecipePrefix)};
    config.said_recipe.add(part);
    if (order > 0) config.set_recipe_keys.push_back({part, order - 1});
  } else {
    const bool is_of_file = order == 0;
    config.said_recipe.start(
        {is_of_file ? recipe_beside(config.recipe, config.folder) : config.recipe, item->place});
    config.set_recipe_keys.clear();
  }
}

void read_document(RunConfig& config, const TomlDocument& document, size_t order) {
  refuse_bare_recipe_keys(*document);
  check_known_keys(*document, rows_of(run_keys()));
  read_keys(config, *document, run_keys());
  read_recipe(config, document, order);
  for (const auto& key : run_keys())
    if (const auto item = find_item(*document, key.path, ""))
      config.given[key.path] = {item->place, order};
}

/// Empty members get the preset's value.
void fill_from(RunModel& model, const ModelConfig& preset) {
  const auto fill = [](auto& member, auto value) {
    if (!member) member = value;
  };
  fill(model.architecture, preset.architecture);
  fill(model.layers, preset.layers);
  // Sizes that follow from others are the preset's only while those are.
  const bool same_heads = !model.heads || *model.heads == preset.heads;
  const bool same_width = !model.width || *model.width == preset.width;
  fill(model.heads, preset.heads);
  fill(model.width, preset.width);
  if (same_heads) fill(model.kv_heads, preset.kv_heads);
  if (same_heads && same_width) fill(model.head_dim, preset.head_dim);
  if (same_width) fill(model.ffn, preset.ffn);
  fill(model.context, preset.context);
  fill(model.tie_embeddings, preset.tie_embeddings);
  fill(model.attention_bias, preset.attention_bias);
  fill(model.mlp_bias, preset.mlp_bias);
  fill(model.norm_bias, preset.norm_bias);
  fill(model.norm_eps, preset.norm_eps);
  fill(model.rope_theta, preset.rope_theta);
  fill(model.gelu, preset.gelu);
  fill(model.init_std, preset.init_std);
}

/// The small model of the quickstart, in the shape of the architecture.
ModelConfig default_model(Architecture architecture) {
  const ArchitectureParts& parts = parts_of(architecture);
  const bool gpt2 = architecture == Architecture::gpt2;
  return {.architecture = architecture,
          .vocab = 0,
          .layers = 4,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 64,
          .width = 256,
          .ffn = gpt2 ? 1024 : 768,
          .context = 128,
          .tie_embeddings = true,
          .attention_bias = parts.attention_bias.value_or(gpt2),
          .mlp_bias = parts.mlp_bias.value_or(gpt2),
          .norm_bias = gpt2};
}

/// What follows from other sizes. [GPT-2; Llama: 8/3 width, here up to whole blocks of 128]
void derive_sizes(RunModel& model, const RunConfig& config) {
  if (!model.kv_heads) model.kv_heads = model.heads;
  if (!model.head_dim) {
    if (*model.width % *model.heads != 0)
      refuse(config, {"model.heads", "model.width"},
             fmt::format("{} heads in width {}", *model.heads, *model.width),
             "a divisor of model.width, or model.head_dim");
    model.head_dim = *model.width / *model.heads;
  }
  if (!model.ffn) {
    const int64_t width = *model.width;
    model.ffn = *model.architecture == Architecture::gpt2 ? 4 * width
                                                          : ((8 * width + 2) / 3 + 127) / 128 * 128;
  }
}

void check_init(const RunConfig& config) {
  for (const auto& key : run_keys()) {
    if (!key.path.starts_with("model.") || key.path == "model.init" || key.print(config).empty())
      continue;
    refuse(config, {key.path, "model.init"}, "given beside model.init",
           "only model.init: the folder says all sizes");
  }
}

/// Of a size that contradicts others: alone each is in its range, or was refused when it was read.
[[noreturn]] void refuse_size(const RunConfig& config, const std::string& key,
                              const Error::Parts& parts) {
  const std::string path = "model." + key;
  const char* const other = key == "kv_heads" ? "model.heads" : "model.width";
  const char* const third = key == "heads" ? "model.head_dim" : "model.heads";
  refuse(config, {path, other, third, "model.architecture", "model.preset"}, parts.problem,
         parts.remedy);
}

/// As they are given, whether or not they bind.
Windows given_windows(const RunModel& model) {
  if (!model.sliding_window) return {};
  Windows windows{.size = *model.sliding_window};
  if (!model.full_layers.empty()) windows.layers.resize(static_cast<size_t>(*model.layers), true);
  for (const int64_t layer : model.full_layers) windows.layers[static_cast<size_t>(layer)] = false;
  return windows;
}

void check_full_layers(const RunConfig& config) {
  const RunModel& model = config.model;
  if (!model.full_layers.empty() && !model.sliding_window)
    refuse(config, {"model.full_layers"}, "given without model.sliding_window", "both, or neither");
  for (const int64_t layer : model.full_layers)
    if (layer >= *model.layers)
      refuse(config, {"model.full_layers", "model.layers"}, fmt::format("{}", layer),
             fmt::format("layers from 0 to {}", *model.layers - 1));
}

void resolve_model(RunConfig& config) {
  RunModel& model = config.model;
  if (!model.init.empty()) return check_init(config);
  const Architecture wanted = model.architecture.value_or(Architecture::llama);
  ModelConfig start = default_model(wanted);
  if (!model.preset.empty()) {
    start = model_preset(model.preset);
    if (model.architecture && wanted != start.architecture)
      refuse(config, {"model.architecture", "model.preset"},
             "not that of model.preset \"" + model.preset + "\"", "only one of the two");
  }
  if (!model.vocab) model.vocab = 0;
  fill_from(model, start);
  derive_sizes(model, config);
  check_full_layers(config);
  try {
    ModelConfig sizes = config.model_config(1);
    sizes.windows = given_windows(model);
    validate(sizes, config.place);
  } catch (const Error& error) {
    refuse_size(config, error.parts().key, error.parts());
  }
}

/// A model goes on with the tokenizer that it was trained with.
void resolve_tokenizer(RunConfig& config) {
  const std::string& folder = config.model.init;
  if (folder.empty() || config.given.contains("data.tokenizer")) return;
  if (is_file(join_path(folder, "tokenizer.json"))) config.data.tokenizer = folder;
}

void resolve_train(RunConfig& config) {
  RunTrain& train = config.train;
  if (!train.min_lr) train.min_lr = train.lr / 10;
  if (*train.min_lr > train.lr)
    refuse(config, {"train.min_lr", "train.lr"},
           fmt::format("{} is above train.lr = {}", *train.min_lr, train.lr), "at most train.lr");
}

/// Keys of a section that mean nothing without `key`.
void refuse_section(const RunConfig& config, std::string_view section, const std::string& key,
                    std::string_view wanted) {
  for (const auto& row : run_keys()) {
    if (!row.path.starts_with(section) || row.print(config) == row.print(RunConfig())) continue;
    refuse(config, {row.path, key}, fmt::format("{} without {}", row.print(config), wanted),
           "that, or neither");
  }
}

/// A pair is two sequences of one micro-batch; without pairs what is said of them means nothing.
void check_objective(const RunConfig& config) {
  if (config.train.objective == Objective::dpo) {
    if (config.train.document_mask)
      refuse(config, {"train.document_mask", "train.objective"},
             "true with train.objective = \"dpo\", whose sequences are one document each", "false");
    if (config.train.batch % 2 == 0) return;
    refuse(config, {"train.batch", "train.objective"},
           fmt::format("{} sequences, and a pair is two", config.train.batch), "an even number");
  }
  refuse_section(config, "dpo.", "train.objective", "train.objective = \"dpo\"");
}

/// A folder of adapters says itself what they are.
void refuse_what_adapters_say(const RunConfig& config) {
  for (const auto& row : run_keys()) {
    const bool is_theirs =
        row.path.starts_with("lora.") && row.path != "lora.init" && row.path != "lora.save";
    if (!is_theirs || row.print(config) == row.print(RunConfig())) continue;
    refuse(config, {row.path, "lora.init"},
           fmt::format("{} with lora.init, whose folder says it", row.print(config)),
           "one of the two");
  }
}

/// Adapters stand beside the weights of a folder, which ranks do not divide.
void check_lora(const RunConfig& config) {
  const int64_t rank = config.lora.adapters.rank;
  const bool goes_on = !config.lora.init.empty();
  if (goes_on) refuse_what_adapters_say(config);
  if (rank == 0 && !goes_on) return refuse_section(config, "lora.", "lora.rank", "lora.rank");
  const std::string key = goes_on ? "lora.init" : "lora.rank";
  if (config.model.init.empty())
    refuse(config, {key, "model.init"},
           fmt::format("{} without model.init",
                       goes_on ? toml_quote(config.lora.init) : std::to_string(rank)),
           "a model folder whose weights stay as they are");
  if (config.train.tensor_parallel > 1)
    refuse(config, {"train.tensor_parallel", key},
           fmt::format("{} with {}, whose adapters are not divided", config.train.tensor_parallel,
                       key),
           "1: ranks that share the batch");
}

/// `file`: with what no document says.
RunConfig resolve(const std::vector<TomlDocument>& documents, RunConfig file,
                  const std::string& recipe) {
  RunConfig config = std::move(file);
  for (size_t i = 0; i < documents.size(); ++i) read_document(config, documents[i], i);
  take_paths_beside(config);
  if (recipe.empty())
    config.recipe = config.said_recipe.text();
  else
    config.set_recipe(recipe);
  resolve_model(config);
  resolve_tokenizer(config);
  resolve_train(config);
  check_objective(config);
  check_lora(config);
  return config;
}

std::vector<TomlDocument> documents_of(std::string_view toml, const std::string& place,
                                       std::span<const std::string> settings) {
  std::vector<TomlDocument> documents = {shared(parse_toml(toml, place))};
  for (const std::string& setting : settings) documents.push_back(shared(parse_setting(setting)));
  return documents;
}

}  // namespace

RunConfig RunConfig::load(const std::string& path, std::span<const std::string> settings,
                          const std::string& recipe) {
  const std::string text = read_file(path, kMaxTomlBytes);
  RunConfig file;
  file.place = path;
  if (is_of_run(text))
    for (const OlderDefault& older : kOlderDefaults) older.put(file);
  else
    file.folder = folder_of_file(path);
  return resolve(documents_of(text, path, settings), std::move(file), recipe);
}

RunConfig RunConfig::parse(std::string_view toml, const std::string& place,
                           std::span<const std::string> settings, const std::string& recipe) {
  RunConfig file;
  file.place = place;
  return resolve(documents_of(toml, place, settings), std::move(file), recipe);
}

void RunConfig::set_recipe(const std::string& name) {
  if (!is_utf8(name))
    throw Error({"recipe", "", toml_quote(name) + ": its name is not UTF-8",
                 "another name: TOML, in which a run says its recipe, holds nothing else"});
  said_recipe.start({name, "--recipe"});
  for (const auto& [keys, setting] : set_recipe_keys) said_recipe.add(keys);
  recipe = said_recipe.text();
}

std::string RunConfig::place_of(std::initializer_list<std::string_view> keys) const {
  const GivenAt* last = last_given(*this, keys);
  return last != nullptr ? last->place : place;
}

std::string RunConfig::source_of(std::initializer_list<std::string_view> keys) const {
  const GivenAt* last = last_given(*this, keys);
  return last != nullptr && last->order > 0 ? last->place : place;
}

void RunConfig::refuse(std::initializer_list<std::string_view> keys, std::string problem,
                       std::string remedy) const {
  throw Error({.place = source_of(keys),
               .key = std::string(*keys.begin()),
               .problem = std::move(problem),
               .remedy = std::move(remedy)});
}

std::string RunConfig::resolved_toml() const { return print_keys(*this, run_keys()); }

std::map<std::string, std::string> RunConfig::update_settings() const {
  constexpr std::array<std::string_view, 18> kPaths = {
      "train.steps",           "train.lr",           "train.min_lr",       "train.warmup",
      "train.schedule",        "train.decay_shape",  "train.weight_decay", "train.betas",
      "train.decay_fraction",  "train.eps",          "train.clip",         "train.backend",
      "train.deterministic",   "train.objective",    "dpo.beta",           "dpo.label_smoothing",
      "dpo.reference_storage", "train.document_mask"};
  std::map<std::string, std::string> settings;
  for (const auto& key : run_keys())
    if (std::find(kPaths.begin(), kPaths.end(), key.path) != kPaths.end())
      settings[key.path] = key.print(*this);
  NG_CHECK(settings.size() == kPaths.size(), settings.size());
  return settings;
}

ModelConfig RunConfig::model_config(int64_t tokenizer_vocab) const {
  NG_CHECK(model.init.empty());
  const int64_t vocab = *model.vocab == 0 ? tokenizer_vocab : *model.vocab;
  if (vocab < tokenizer_vocab)
    refuse({"model.vocab", "data.tokenizer"}, fmt::format("{}", vocab),
           fmt::format("0, or at least the tokenizer's {}", tokenizer_vocab));
  return {.architecture = *model.architecture,
          .vocab = vocab,
          .layers = *model.layers,
          .heads = *model.heads,
          .kv_heads = *model.kv_heads,
          .head_dim = *model.head_dim,
          .width = *model.width,
          .ffn = *model.ffn,
          .context = *model.context,
          .tie_embeddings = *model.tie_embeddings,
          .attention_bias = *model.attention_bias,
          .mlp_bias = *model.mlp_bias,
          .norm_bias = *model.norm_bias,
          .norm_eps = *model.norm_eps,
          .rope_theta = *model.rope_theta,
          .windows = windows_that_bind(given_windows(model), *model.context),
          .gelu = *model.gelu,
          .init_std = *model.init_std};
}

Schedule RunConfig::schedule() const {
  return {.kind = train.schedule,
          .steps = train.steps,
          .warmup = train.warmup,
          .lr = train.lr,
          .min_lr = train.min_lr.value_or(train.lr / 10),
          .decay_fraction = train.decay_fraction,
          .decay_shape = train.decay_shape};
}

}  // namespace ng
