#include "train/update_check.h"

#include <gtest/gtest.h>

#include "backend/wrapped_backend.h"
#include "base/isa.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

/// A run whose parameters are stored as a recipe says.
TinyRunOptions checked_options(const std::string& recipe) {
  TinyRunOptions options;
  options.model.head_dim = 32;
  options.model.width = 64;
  options.model.ffn = 96;
  options.recipe = "name='test'\n" + recipe;
  return options;
}

int check(const std::string& recipe, std::unique_ptr<Backend> backend) {
  const TinyRunOptions options = checked_options(recipe);
  TinyRun tiny(options);
  return check_updates(std::move(backend), make_backend("ref", {1}),
                       Recipe::parse(options.recipe, "test.toml").settings(0).optimizer, {},
                       tiny.model().parameters());
}

TEST(UpdateCheck, EveryRecipeUpdatesAsDefinedOnEveryInstructionSet) {
  int ways = 0;
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (const std::string& name : recipe_names()) {
      SCOPED_TRACE(name + " " + std::string(name_of(isa)));
      ways = std::max(ways, check("inherit='" + name + "'", make_backend("cpu", {2})));
    }
  }
  force_isa("auto");
  EXPECT_GE(ways, 2);  // matrices, and vectors
}

/// Rounds stochastic updates to nearest.
class WithoutDraws final : public WrappedBackend {
 public:
  using WrappedBackend::WrappedBackend;
  [[nodiscard]] std::string_view name() const override { return "without draws"; }
  void execute(const Operation& operation) override {
    if (!std::holds_alternative<Update>(operation)) return WrappedBackend::execute(operation);
    Update update = std::get<Update>(operation);
    update.weight.rule = UpdateRule::nearest;
    WrappedBackend::execute(update);
  }
};

TEST(UpdateCheck, AWrongRoundingIsRefused) {
  const auto without_draws = [] {
    return std::make_unique<WithoutDraws>(make_backend("cpu", {1}));
  };
  EXPECT_NO_THROW(check("inherit='naive-bf16'", without_draws()));
  try {
    (void)check("inherit='sr-bf16'", without_draws());
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("self-check: weight.embed.weight in bf16: "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ng
