// narrowgauge import IN OUT: what other programs wrote, as plain FP32.
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "io/import_model.h"

namespace ng::cli {
namespace {

struct Args {
  std::string in, out;
  bool json = false;
};

int import(const Args& args) {
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
  if (args.json)
    print_json({{"out", args.out}, {"notes", notes}});
  else
    print("{}: F32\n", args.out);
  return 0;
}

std::function<int()> declare(Flags flags) {
  auto args = std::make_shared<Args>();
  flags.option("IN", args->in, "a .gguf file, a quantized folder or one of PEFT's adapters")
      .required()
      .check(not_empty);
  flags.option("OUT", args->out, "the folder to write; *.safetensors: a file of all tensors")
      .required()
      .check(not_empty);
  flags.flag("--json", args->json, "print one JSON object");
  flags.footer(
      "OUT is a plain folder of FP32 weights: what codes and scales stand for, adapters added.\n"
      "Into a file go all tensors of a model of any architecture: of a .gguf under their own "
      "names,\n"
      "NVFP4 times its .scale; of a folder codes and scales as their weights (gpt-oss's experts "
      "too).");
  return [args] { return import(*args); };
}

}  // namespace

extern const Command kImport;
const Command kImport{"import", "a .gguf or a quantized folder as plain FP32", declare};

}  // namespace ng::cli
