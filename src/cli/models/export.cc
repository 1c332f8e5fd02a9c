// narrowgauge export MODEL OUT --to gguf|hf --type T: a model for other programs.
#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "cli/command.h"
#include "cli/models/open_model.h"
#include "io/gguf/export.h"
#include "io/hf/export.h"
#include "io/model_files.h"
#include "io/model_of_run.h"
#include "report/recipe_text.h"
#include "tools/export_model.h"

namespace ng::cli {
namespace {

struct ExportArgs {
  ExportRequest request;
  std::string weights;
  int64_t threads = 0;
  bool json = false;
};

void export_model(const ExportArgs& args) {
  ExportRequest request = args.request;
  request.trained = !args.weights.empty();
  request.threads = threads_of(args.threads);
  const ExportedModel exported = ng::export_model(request);
  for (const std::string& sentence : exported.notes) note(sentence);
  Json json = {
      {"out", request.out}, {"to", request.to}, {"type", request.type}, {"notes", exported.notes}};
  std::string codes;
  if (const auto& trained = exported.trained) {
    note_phase(trained->recipe, trained->phase);
    const ModelConfig config = io::read_model_config({io::model_path(request.model), request.base});
    json.update(report::numbers_json(trained->recipe, trained->phase, config));
    codes = ", codes of " + text_of(trained->recipe, trained->phase);
  }
  print_either(args.json, json,
               fmt::format("{}: {} as {}{}\n", request.out, request.to, request.type, codes));
}

// "GLOB=TYPE"; a name may have no "=".
std::pair<std::string, std::string> exception_of(const std::string& word) {
  const size_t at = word.rfind('=');
  const std::vector<std::string> types = gguf_export_types();
  if (at == std::string::npos || at == 0 ||
      std::find(types.begin(), types.end(), word.substr(at + 1)) == types.end())
    throw WrongFlags(
        fmt::format("--keep: {}: GLOB=TYPE, TYPE one of {}", word, fmt::join(types, " ")));
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
    throw WrongFlags(fmt::format("--block: {}: rows x columns, as 64x32", word));
  return block;
}

/// Which flags go with --to.
void require_fitting(const ExportArgs& args) {
  const ExportRequest& request = args.request;
  const bool is_gguf = request.to == "gguf";
  const std::vector<std::string> types = is_gguf ? gguf_export_types() : hf_export_types();
  if (std::find(types.begin(), types.end(), request.type) == types.end())
    throw WrongFlags(fmt::format("--type: {}: with --to {} one of {}", request.type, request.to,
                                 fmt::join(types, " ")));
  if (!is_gguf && !request.keep.empty()) throw WrongFlags("--keep: goes with --to gguf");
  if (is_gguf && request.block) throw WrongFlags("--block: goes with --to hf");
  if (is_gguf && request.share_scales) throw WrongFlags("--share-scales: goes with --to hf");
  if (!request.recipe.empty() && args.weights.empty())
    throw WrongFlags("--recipe: goes with --weights trained");
  if (!request.phase.empty() && args.weights.empty())
    throw WrongFlags("--phase: goes with --weights trained");
}

constexpr const char* kExportFooter =
    R"(--to gguf: a file for llama.cpp. Matrices of blocks have the type, embedding and head BF16
(the type where that is f32, f16, bf16 or q8_0), the rest F32. --to hf: a folder for transformers
and vLLM; what is not quantized is BF16. MXFP4 and MXFP8 have scales by floor, NVFP4 one scale
more for each tensor, FP8 448/amax. Nothing is left at OUT after an error.
--weights trained: codes and scales are those that fprop's weight operand had in training.)";

void declare_export(Flags flags, ExportArgs& args) {
  ExportRequest& r = args.request;
  flags
      .option("MODEL", r.model,
              "a model folder, also of PEFT's adapters, a .gguf file, or a run's folder")
      .required();
  flags.option("OUT", r.out, "the file or folder to write").required();
  flags.option("--to KIND", r.to, "gguf or hf").required().one_of({"gguf", "hf"});
  flags
      .option("--type TYPE", r.type,
              fmt::format("gguf: {}; hf: {}", fmt::join(gguf_export_types(), " "),
                          fmt::join(hf_export_types(), " ")))
      .required();
  flags.read_options("--keep GLOB=TYPE", "gguf: another type for tensors whose names match",
                     [&r](const std::vector<std::string>& words) {
                       for (const std::string& word : words) r.keep.push_back(exception_of(word));
                     });
  flags.read_option("--block RxC", "fp8_block, fp8_fine: values that share a scale; else 128x128",
                    [&r](const std::string& word) { r.block = block_of(word); });
  flags.flag("--share-scales", r.share_scales,
             "hf: one scale of the tensor for q, k, v and one for gate, up");
  flags.option("--weights trained", args.weights, "trained: the codes that training had")
      .one_of({"trained"});
  add_recipe(flags, r.recipe, "of --weights trained; else the run's that MODEL lies in");
  add_phase(flags, r.phase);
  add_base(flags, r.base);
  add_threads(flags, args.threads);
  flags.flag("--json", args.json, "print one JSON object");
  flags.check([&args] { require_fitting(args); });
  flags.footer(kExportFooter);
}

}  // namespace

const Command kExport{"export", "a model for llama.cpp, transformers and vLLM",
                      with_flags<ExportArgs, declare_export, export_model>};

}  // namespace ng::cli
