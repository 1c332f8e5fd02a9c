// The run file: what to train, on what, for how long. In which numbers is the recipe's business.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_facts.h"
#include "data/chat_template.h"
#include "data/validation_split.h"
#include "model/config.h"
#include "model/model.h"
#include "recipe/said_recipe.h"
#include "train/data_parallel.h"
#include "train/dpo.h"
#include "train/schedule.h"

namespace ng {

/// [model]: every key may be left out. RunConfig::load fills in what the preset or the defaults of
/// the architecture say; with `init` all sizes stay empty and come from that folder.
struct RunModel {
  std::string preset;
  std::string init;  ///< model folder to start from
  std::optional<Architecture> architecture;
  std::optional<int64_t> layers, heads, kv_heads, head_dim, width, ffn, context;
  std::optional<int64_t> vocab;  ///< 0: the tokenizer's
  std::optional<bool> tie_embeddings, attention_bias, mlp_bias, norm_bias;
  std::optional<float> norm_eps, rope_theta, init_std;
  std::optional<GeluKind> gelu;
  std::optional<int64_t> sliding_window;
  std::vector<int64_t> full_layers;  ///< those without the window
};

/// What files that are no .jsonl hold.
enum class TokensAs : uint8_t {
  automatic,  ///< token ids where they begin so, else text
  uint16      ///< token ids, bare ones where they do not begin as any kind
};

/// [data]
struct RunData {
  std::vector<std::string> train = {"kjv"};  ///< prepared text, files, globs or folders
  double validation_share = 0.05;            ///< of the text, if no files are named
  ValidationSplit validation_split = ValidationSplit::spread;
  std::vector<std::string> validation_files;
  int64_t validation_tokens = 0;  ///< about so many of them; 0: all
  std::string tokenizer = "bytes";
  /// Of files whose names end in ".jsonl".
  std::string text_key = "text";
  std::vector<std::string> ignored_keys;  ///< of lines and messages
  ChatTemplate chat = ChatTemplate::none;
  TokensAs tokens = TokensAs::automatic;
  SpecialTokens special_tokens = SpecialTokens::recognized;
};

/// What is made small.
enum class Objective : uint8_t { cross_entropy, dpo };

/// [train]
struct RunTrain {
  Objective objective = Objective::cross_entropy;
  int64_t steps = 600;
  double epochs = 0;            ///< given in place of steps, which count_steps() then puts; 0: not
  int64_t batch = 16;           ///< sequences in a micro-batch
  int64_t length = 0;           ///< tokens of a sequence; 0: the model's context
  int64_t accumulate = 1;       ///< micro-batches in a step
  int64_t tensor_parallel = 1;  ///< ranks that divide every layer, and tokens between layers
  bool document_mask = false;   ///< no token sees one of another document
  double lr = 1e-3;
  std::optional<double> min_lr;  ///< a tenth of lr unless given
  int64_t warmup = 20;
  ScheduleKind schedule = ScheduleKind::cosine;
  double decay_fraction = 0.2;  ///< schedule wsd
  DecayShape decay_shape = DecayShape::linear;
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double clip = 1.0;  ///< 0: no clipping
  Determinism deterministic = Determinism::ranks;
  int64_t validate_every = 100;    ///< steps; 0: at the end only
  int64_t checkpoint_every = 100;  ///< steps; 0: at the end only
  int64_t keep_checkpoints = 2;
  std::string save_dtype = "F32";  ///< of the weights in model/
  RecomputePolicy recompute = RecomputePolicy::none;
  std::string backend = "cpu";
  int64_t threads = 0;     ///< 0: all cores
  int64_t watchdog = 600;  ///< seconds that a rank waits for others; 0: for ever
};

/// [lora]: nothing without a rank.
struct RunLora {
  enum class Save : uint8_t { merged, adapter };
  Lora adapters;
  Save save = Save::merged;  ///< what model/ is
  std::string init;          ///< PEFT folder to go on from, which says what adapters says
};

/// [cuda]
struct RunCuda {
  int64_t thread_order = 0;  ///< of an emulated card: the seed of the order of its threads
};

/// Where a key was given, for errors: "run.toml:3", "--set seed=2", "--recipe".
struct GivenAt {
  std::string place;
  size_t order = SIZE_MAX;  ///< 0: in the file; later ones go over earlier ones
};

/// Keys over any recipe, and which of the settings says them.
struct SetRecipeKeys {
  RecipeDocument keys;
  size_t setting = 0;
};

struct RunConfig {
  std::string place;   ///< the file, for errors
  std::string folder;  ///< in which the file's paths are looked for first; empty: nowhere else
  std::map<std::string, GivenAt, std::less<>> given;
  /// As Recipe::load() takes it: with keys over it TOML of several lines.
  std::string recipe = "fp32";
  SaidRecipe said_recipe;                      ///< of which that is made
  std::vector<SetRecipeKeys> set_recipe_keys;  ///< none from before another recipe was named
  uint64_t seed = 1;
  uint64_t twin = 0;  ///< another run of the same seed: only the draws of rounding differ
  RunModel model;
  RunData data;
  RunTrain train;
  RunCuda cuda;
  RunLora lora;
  DpoSettings dpo;  ///< [dpo]: nothing without train.objective = "dpo"

  /// Reads a run file, then puts each of `settings` ("train.steps=50"; a value that is no TOML is
  /// taken as a string) over it, then fills in defaults and checks that nothing contradicts. A path
  /// of the file is one beside it where that is there; a run.toml that a run wrote says paths as
  /// the run was called, and validates on the tail where it says nothing of that: so did all runs.
  /// `recipe`, where not empty, is that of set_recipe(), known before keys are put over one.
  [[nodiscard]] static RunConfig load(const std::string& path,
                                      std::span<const std::string> settings = {},
                                      const std::string& recipe = "");
  [[nodiscard]] static RunConfig parse(std::string_view toml, const std::string& place,
                                       std::span<const std::string> settings = {},
                                       const std::string& recipe = "");

  /// Another recipe, by name or path, instead of the file's: what `settings` say of its keys goes
  /// over it. Throws Error where resolved_toml() could not say it.
  void set_recipe(const std::string& name);
  /// Where that of `keys` was given which was given last: "run.toml:3", "--set seed=2"; the file
  /// where none was.
  [[nodiscard]] std::string place_of(std::initializer_list<std::string_view> keys) const;
  /// The same without a line: the file, or the flag.
  [[nodiscard]] std::string source_of(std::initializer_list<std::string_view> keys) const;

  /// Where the paths of a key were looked for before they were taken as they are; empty: nowhere.
  [[nodiscard]] std::string folder_of(std::string_view key) const;
  /// A path of a key that is not there, as errors name it: "runs/a" or "a".
  [[nodiscard]] std::string tried(std::string_view key, const std::string& path) const;

  /// Throws Error at source_of(keys), of the first of them.
  [[noreturn]] void refuse(std::initializer_list<std::string_view> keys, std::string problem,
                           std::string remedy) const;

  /// Every key written out; loads back to an equal text.
  [[nodiscard]] std::string resolved_toml() const;

  /// The model to build; `tokenizer_vocab` where the vocabulary is the tokenizer's. Not with
  /// model.init. Throws Error where the tokenizer needs a larger vocabulary than model.vocab.
  [[nodiscard]] ModelConfig model_config(int64_t tokenizer_vocab) const;

  [[nodiscard]] Schedule schedule() const;

  /// The keys by which a step's update is made, and their values as TOML: a resumed run may change
  /// them, and should say so.
  [[nodiscard]] std::map<std::string, std::string> update_settings() const;
};

/// All keys of the run file. A default is that of no run file: of [model] for no keys there.
[[nodiscard]] std::vector<KeyFacts> run_key_facts();

}  // namespace ng
