// Any text is a recipe or an Error; a recipe's resolved text loads back to the same recipe.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "recipe/recipe.h"

namespace {

ng::Recipe recipe_of(std::string_view text) { return ng::Recipe::parse(text, "fuzz.toml"); }

/// Loads twice: first the input, then what that resolves to, which must be accepted.
void load_twice(std::string_view text) {
  std::string resolved, hash;
  try {
    const ng::Recipe recipe = recipe_of(text);
    resolved = recipe.resolved_toml();
    hash = recipe.hash();
  } catch (const ng::Error&) {
    return;
  }
  const ng::Recipe again = recipe_of(resolved);
  if (again.hash() != hash || again.resolved_toml() != resolved) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  load_twice({reinterpret_cast<const char*>(data), size});
  return 0;
}
