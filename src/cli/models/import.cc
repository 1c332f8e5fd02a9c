// narrowgauge import IN OUT: what other programs wrote, as plain FP32.
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/shared_flags.h"
#include "io/import_model.h"
#include "io/model_of_run.h"

namespace ng::cli {
namespace {

struct ImportArgs {
  std::string in, out, base;
  bool json = false;
};

bool takes_tensors(const ImportArgs& args) { return args.out.ends_with(".safetensors"); }

void import(ImportArgs args) {
  args.in = io::model_path(args.in);
  refuse_input(args.out, args.in);
  refuse_files_of(args.in, args.out);
  std::vector<std::string> notes;
  if (takes_tensors(args)) {
    require_target(args.out, "an import", is_import);
    notes = import_tensors(args.in, args.out);
  } else {
    notes = import_model({args.in, args.base}, args.out);
  }
  for (const std::string& sentence : notes) note(sentence);
  print_either(args.json, {{"out", args.out}, {"notes", notes}},
               fmt::format("{}: F32\n", args.out));
}

constexpr const char* kImportFooter =
    R"(OUT is a plain folder of FP32 weights: what codes and scales stand for, adapters added.
Into a file go all tensors of a model of any architecture: of a .gguf under their own names,
NVFP4 times its .scale; of a folder or a .safetensors file codes and scales as their weights.
Codes whose scales are not understood are refused; scales of activations are left out.)";

void declare_import(Flags flags, ImportArgs& args) {
  flags
      .option("IN", args.in,
              "a .gguf file or any of the several of a model, a quantized folder or file, or a "
              "folder of PEFT's adapters")
      .required();
  flags.option("OUT", args.out, "the folder to write; *.safetensors: a file of all tensors")
      .required();
  add_base(flags, args.base);
  flags.flag("--json", args.json, "print one JSON object");
  flags.check([&args] {
    if (takes_tensors(args) && !args.base.empty())
      throw WrongFlags("--base: goes with a folder as OUT");
  });
  flags.footer(kImportFooter);
}

}  // namespace

const Command kImport{"import", "a .gguf or a quantized folder as plain FP32",
                      with_flags<ImportArgs, declare_import, import>};

}  // namespace ng::cli
