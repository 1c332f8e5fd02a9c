// narrowgauge cast IN... OUT --format F: the tensors of files as narrow numbers.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/formats/table.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "cli/tensors/tensor_text.h"
#include "format/cast_names.h"
#include "io/tensor_files.h"
#include "tools/cast_file.h"

namespace ng::cli {
namespace {

struct CastArgs {
  std::vector<std::string> files;  ///< inputs, then the output
  CastWords format;
  CastSettings settings;
  MachineFlags machine;
  bool json = false;
};

struct FilePair {
  std::string in, out;
};

// Of the cast of a file.
std::string file_name(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  if (name.extension() == ".gguf") name.replace_extension(".safetensors");
  return name.string();
}

// One input goes into a file; several, or what may be several, into a folder under their names.
std::vector<FilePair> pairs_of(const std::vector<std::string>& words) {
  const std::vector<std::string> inputs(words.begin(), words.end() - 1);
  const std::string& out = words.back();
  if (out.empty()) refuse("FILES", "an empty path for the output", "the file or folder to write");
  const std::vector<std::string> files = io::tensor_files(inputs);
  const bool into_folder = inputs.size() > 1 || io::names_many(inputs[0]) || is_folder(out);
  if (!into_folder) return {{files[0], out}};
  if (is_file(out))
    refuse(out, fmt::format("is a file, and there are {} inputs", files.size()),
           "a folder for their casts");
  std::vector<FilePair> pairs;
  std::map<std::string, std::string> inputs_of;  // by output
  for (const std::string& file : files) {
    const std::string to = join_path(out, file_name(file));
    if (const auto [other, is_new] = inputs_of.emplace(to, file); !is_new)
      refuse(file, fmt::format("has the name of {}", other->second),
             "inputs of different names, or one after another");
    pairs.push_back({file, to});
  }
  return pairs;
}

Json json_of(const CastResult& result) {
  const OperandStats& counts = result.counts;
  return {{"name", result.name},
          {"dtype", result.dtype},
          {"shape", result.shape},
          {"values", counts.values},
          {"saturated", counts.saturated},
          {"flushed", counts.flushed},
          {"nan", counts.nan},
          {"inf", counts.inf},
          {"sqnr_db", json_number(result.errors.sqnr_db)},
          {"relative_mse", json_number(result.errors.relative_mse)},
          {"max_abs_error", json_number(result.errors.max_abs)}};
}

Json json_of(const FilePair& pair, const CastReport& report) {
  Json tensors = Json::array();
  for (const CastResult& result : report.tensors) tensors.push_back(json_of(result));
  return {{"in", pair.in}, {"out", pair.out}, {"tensors", tensors}, {"skipped", report.skipped}};
}

std::string line_of(const CastResult& result) {
  const double values = static_cast<double>(std::max<uint64_t>(result.counts.values, 1));
  return fmt::format(
      "{} {}  saturated {}  flushed {}  SQNR {}{}", on_one_line(result.name),
      shape_text(result.shape), percent_text(static_cast<double>(result.counts.saturated) / values),
      percent_text(static_cast<double>(result.counts.flushed) / values),
      decibel_text(result.errors.sqnr_db), std::isfinite(result.errors.sqnr_db) ? " dB" : "");
}

// What is not finite was rounded to something else, or took its block with it.
void note_nonfinite(const std::string& path, const CastReport& report) {
  uint64_t nan = 0, inf = 0, tensors = 0;
  const CastResult* first = nullptr;
  for (const CastResult& result : report.tensors) {
    if (result.counts.nan + result.counts.inf == 0) continue;
    nan += result.counts.nan;
    inf += result.counts.inf;
    if (tensors++ == 0) first = &result;
  }
  if (first == nullptr) return;
  note(fmt::format("{}: {} NaN and {} infinite values in {} ({}{})", path, nan, inf,
                   counted(static_cast<int64_t>(tensors), "tensor"), first->name,
                   tensors == 1 ? "" : ", ..."));
}

void cast(const CastArgs& args) {
  CastSettings settings = args.settings;
  settings.cast = args.format.operand();
  settings.format = args.format.format;
  settings.threads = args.machine.use();
  const std::unique_ptr<Backend> backend = args.machine.other_than_cpu();
  settings.backend = backend.get();
  const std::vector<FilePair> pairs = pairs_of(args.files);
  uint64_t total = 0, done = 0;
  for (const FilePair& pair : pairs) {
    require_cast_or_nothing(pair.in, pair.out);
    total += bytes_to_cast(pair.in, settings);
  }
  std::optional<NewFolders> folders;  // gone again where no cast comes to be
  if (pairs.front().out != args.files.back()) folders.emplace(args.files.back());
  Json files = Json::array();
  for (const FilePair& pair : pairs) {
    CastReport report;
    {
      ProgressLine line("MiB");
      report = cast_file(pair.in, pair.out, settings, [&](uint64_t bytes) {
        line.show(static_cast<int64_t>((done + bytes) >> 20), static_cast<int64_t>(total >> 20));
      });
    }
    done += bytes_to_cast(pair.in, settings);
    note_skipped(pair.in, report.skipped);
    note_nonfinite(pair.in, report);
    if (args.json) files.push_back(json_of(pair, report));
    if (args.json) continue;
    for (const CastResult& result : report.tensors) print("{}\n", line_of(result));
    flush_output();
  }
  if (args.json) print_json({{"format", operand_json(settings.cast)}, {"files", files}});
}

std::string cast_format_help() {
  std::string text = "a format, ";
  for (const std::string_view name : cast_names()) text += std::string(name) + ' ';
  return text + "(uint8 and uint4: affine), or an element; narrowgauge formats lists them";
}

constexpr const char* kCastFooter =
    R"(Every float tensor X becomes X.codes (U8 or U16), X.scale (codes in U8, or F32: what codes
are multiplied by), X.tensor_scale (F32, NVFP4), X.zero (U8, affine integers: subtracted
before) and X.values (F32). Files are worked through in pieces: memory does not grow with them.)";

void declare_cast(Flags flags, CastArgs& args) {
  flags
      .option(
          "FILES IN... OUT", args.files,
          "safetensors or GGUF files, folders or patterns to read, then the file to write; with "
          "several inputs the folder to write")
      .required()
      .at_least(2);
  flags.option("--format NAME", args.format.format, cast_format_help()).required();
  add_cast_flags(flags, args.format);
  flags.setting("--axis", args.settings.axis, "along which blocks lie; -1: the last");
  add_seed(flags, args.settings.seed, "of stochastic rounding");
  flags.option("--tensor GLOB", args.settings.tensors, "only tensors whose names match");
  flags.flag("--packed", args.settings.packed, "codes of 4 and 6 bits as bit strings");
  args.machine.declare(flags);
  flags.flag("--json", args.json, "what became of each tensor, as JSON");
  flags.footer(kCastFooter);
}

}  // namespace

const Command kCast{"cast", "round the tensors of files to a format",
                    with_flags<CastArgs, declare_cast, cast>};

}  // namespace ng::cli
