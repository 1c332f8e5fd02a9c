#include "cli/texts/tokenizer_flag.h"

#include "base/error.h"
#include "cli/flags.h"

namespace ng::cli {

CLI::Option* add_tokenizer(CLI::App& app, std::string& name) {
  return app.add_option("--tokenizer", name, "a tokenizer.json, a folder with one, or \"bytes\"")
      ->type_name("FILE|FOLDER|bytes")
      ->check(not_empty);
}

std::unique_ptr<Tokenizer> open_named_tokenizer(const std::string& name) {
  try {
    return open_tokenizer(name);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.key != "tokenizer") throw;  // of the file itself
    parts.problem = parts.place + ": " + parts.problem;
    parts.place = "--tokenizer";
    parts.key = "";
    throw Error(parts);
  }
}

}  // namespace ng::cli
