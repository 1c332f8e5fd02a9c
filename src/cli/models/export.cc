// narrowgauge export MODEL OUT --to gguf|hf --type T: a model for other programs.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "interop/export_gguf.h"
#include "interop/export_hf.h"
#include "io/gguf.h"
#include "train/run_files.h"

namespace ng::cli {
namespace {

struct Args {
  std::string model, out, to, type;
  std::vector<std::pair<std::string, std::string>> keep;
  std::string weights, recipe;
  std::optional<std::pair<int, int>> block;
  bool share_scales = false;
  int64_t threads = 0;
  bool json = false;
};

/// The folder that a model is in, without dots and links: RUN of RUN/model.
std::filesystem::path folder_around(const std::string& model) {
  std::error_code unknown;
  const auto whole = std::filesystem::weakly_canonical(model, unknown);
  return (unknown ? std::filesystem::path(model) : whole).parent_path();
}

/// A run's name, of RUN/model; else the model's own.
std::string name_of(const std::string& model) {
  const std::filesystem::path around = folder_around(model);
  if (is_file(join_path(around.string(), kRunFile))) return around.filename().string();
  std::error_code unknown;
  const auto whole = std::filesystem::weakly_canonical(model, unknown);
  return is_folder(model) ? whole.filename().string() : whole.stem().string();
}

/// The recipe asked for, else that of the run whose model this is.
TrainedNumbers trained_numbers(const Args& args) {
  if (!args.recipe.empty())
    return {.recipe = Recipe::load(args.recipe), .shown = "recipe " + args.recipe};
  const std::string run_file = join_path(folder_around(args.model).string(), kRunFile);
  std::optional<Recipe> recipe;
  if (is_file(run_file)) recipe = recipe_of_run_file(run_file);
  if (!recipe)
    throw Error({.place = args.model,
                 .key = "--weights trained",
                 .problem = "lies in no run folder whose recipe is known",
                 .remedy = "--recipe R"});
  return {.recipe = *recipe, .shown = "recipe " + recipe->name()};
}

std::vector<std::string> written(const Args& args) {
  std::optional<TrainedNumbers> trained;
  if (!args.weights.empty()) trained = trained_numbers(args);
  const Threads threads = threads_of(args.threads);
  if (args.to == "gguf")
    return export_gguf({.model = args.model,
                        .out = args.out,
                        .name = name_of(args.model),
                        .type = args.type,
                        .keep = args.keep,
                        .trained = trained,
                        .threads = threads});
  return export_hf({.model = args.model,
                    .out = args.out,
                    .type = args.type,
                    .block = args.block,
                    .share_scales = args.share_scales,
                    .trained = trained,
                    .threads = threads});
}

int export_model(const Args& args) {
  refuse_input(args.out, args.model);
  refuse_files_of(args.model, args.out);
  if (args.to == "gguf") require_target(args.out, "a GGUF file", io::is_gguf);
  const std::vector<std::string> notes = written(args);
  for (const std::string& sentence : notes) note(sentence);
  if (args.json)
    print_json({{"out", args.out}, {"to", args.to}, {"type", args.type}, {"notes", notes}});
  else
    print("{}: {} as {}\n", args.out, args.to, args.type);
  return 0;
}

// "GLOB=TYPE"; a name may have no "=".
std::pair<std::string, std::string> exception_of(const std::string& word) {
  const size_t at = word.rfind('=');
  const std::vector<std::string> types = gguf_export_types();
  if (at == std::string::npos || at == 0 ||
      std::find(types.begin(), types.end(), word.substr(at + 1)) == types.end())
    throw CLI::ValidationError(
        "--keep", fmt::format("{}: GLOB=TYPE, TYPE one of {}", word, fmt::join(types, " ")));
  return {word.substr(0, at), word.substr(at + 1)};
}

// "64x32"
std::pair<int, int> block_of(const std::string& word) {
  std::pair<int, int> block;
  const char* const end = word.data() + word.size();
  const auto rows = std::from_chars(word.data(), end, block.first);
  const bool has_cross = rows.ec == std::errc() && rows.ptr != end && *rows.ptr == 'x';
  const auto cols = has_cross ? std::from_chars(rows.ptr + 1, end, block.second) : rows;
  constexpr int kMost = 1 << 20;
  const auto fits = [](int size) { return size > 0 && size <= kMost; };
  if (!has_cross || cols.ec != std::errc() || cols.ptr != end || !fits(block.first) ||
      !fits(block.second))
    throw CLI::ValidationError("--block", word + ": rows x columns, as 64x32");
  return block;
}

/// What CLI11 cannot see: which flags go with --to.
void require_fitting(const Args& args) {
  const bool is_gguf = args.to == "gguf";
  const std::vector<std::string> types = is_gguf ? gguf_export_types() : hf_export_types();
  if (std::find(types.begin(), types.end(), args.type) == types.end())
    throw CLI::ValidationError("--type", fmt::format("{}: with --to {} one of {}", args.type,
                                                     args.to, fmt::join(types, " ")));
  if (!is_gguf && !args.keep.empty()) throw CLI::ValidationError("--keep", "goes with --to gguf");
  if (is_gguf && args.block) throw CLI::ValidationError("--block", "goes with --to hf");
  if (is_gguf && args.share_scales)
    throw CLI::ValidationError("--share-scales", "goes with --to hf");
  if (!args.recipe.empty() && args.weights.empty())
    throw CLI::ValidationError("--recipe", "goes with --weights trained");
}

constexpr const char* kFooter =
    R"(--to gguf: a file for llama.cpp. Matrices of blocks have the type, embedding and head BF16
(the type where that is f32, f16, bf16 or q8_0), the rest F32. --to hf: a folder for transformers
and vLLM; what is not quantized is BF16. MXFP4 and MXFP8 have scales by floor, NVFP4 one scale
more for each tensor, FP8 448/amax. Nothing is left at OUT after an error.
--weights trained: codes and scales are those that fprop's weight operand had in training.)";

std::function<int()> declare(CLI::App& app) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  app.add_option("MODEL", a.model, "a model folder or a .gguf file")->required()->check(not_empty);
  app.add_option("OUT", a.out, "the file or folder to write")->required()->check(not_empty);
  app.add_option("--to", a.to, "gguf or hf")
      ->required()
      ->type_name("KIND")
      ->check(CLI::IsMember({"gguf", "hf"}));
  app.add_option("--type", a.type,
                 fmt::format("gguf: {}; hf: {}", fmt::join(gguf_export_types(), " "),
                             fmt::join(hf_export_types(), " ")))
      ->required()
      ->type_name("TYPE");
  app.add_option_function<std::vector<std::string>>(
         "--keep",
         [args](const std::vector<std::string>& words) {
           for (const std::string& word : words) args->keep.push_back(exception_of(word));
         },
         "gguf: another type for tensors whose names match")
      ->type_name("GLOB=TYPE")
      ->take_all();
  app.add_option_function<std::string>(
         "--block", [args](const std::string& word) { args->block = block_of(word); },
         "fp8_block, fp8_fine: values that share a scale; else 128x128")
      ->type_name("RxC");
  app.add_flag("--share-scales", a.share_scales,
               "hf: one scale of the tensor for q, k, v and one for gate, up");
  app.add_option("--weights", a.weights, "trained: the codes that training had")
      ->type_name("trained")
      ->check(CLI::IsMember({"trained"}));
  app.add_option("--recipe", a.recipe, "of --weights trained; else the run's that MODEL lies in")
      ->type_name("NAME")
      ->check(not_empty);
  add_threads(app, a.threads);
  app.add_flag("--json", a.json, "print one JSON object");
  app.callback([args] { require_fitting(*args); });
  app.footer(kFooter);
  return [args] { return export_model(*args); };
}

}  // namespace

extern const Command kExport;
const Command kExport{"export", "a model for llama.cpp, transformers and vLLM", declare};

}  // namespace ng::cli
