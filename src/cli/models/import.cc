// narrowgauge import IN OUT: what other programs wrote, as plain FP32.
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "io/import_model.h"

namespace ng::cli {
namespace {

struct ImportArgs {
  std::string in, out;
  bool json = false;
};

void import(const ImportArgs& args) {
  refuse_input(args.out, args.in);
  refuse_files_of(args.in, args.out);
  std::vector<std::string> notes;
  if (args.out.ends_with(".safetensors")) {
    require_target(args.out, "an import", is_import);
    import_tensors(args.in, args.out);
  } else {
    notes = import_model(args.in, args.out);
  }
  for (const std::string& sentence : notes) note(sentence);
  print_either(args.json, {{"out", args.out}, {"notes", notes}},
               fmt::format("{}: F32\n", args.out));
}

constexpr const char* kImportFooter =
    R"(OUT is a plain folder of FP32 weights: what codes and scales stand for, adapters added.
Into a file go all tensors of a model of any architecture: of a .gguf under their own names,
NVFP4 times its .scale; of a folder codes and scales as their weights (gpt-oss's experts too).)";

void declare_import(Flags flags, ImportArgs& args) {
  flags.option("IN", args.in, "a .gguf file, a quantized folder or one of PEFT's adapters")
      .required();
  flags.option("OUT", args.out, "the folder to write; *.safetensors: a file of all tensors")
      .required();
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kImportFooter);
}

}  // namespace

const Command kImport{"import", "a .gguf or a quantized folder as plain FP32",
                      with_flags<ImportArgs, declare_import, import>};

}  // namespace ng::cli
