#include "recipe/update_keys.h"

#include "recipe/update_words.h"

namespace ng {

using enum UpdateRule;

Key<RecipeSettings> weights_update_key() {
  std::vector<std::string_view> names = kUpdateRules.names();
  names.push_back("momentum_feedback");
  const std::string expected =
      one_of(names) + "; a list may join momentum_feedback with nearest or stochastic";
  return {
      {.path = "weights.update",
       .expected = expected,
       .doc = "how an update is rounded into weights without FP32 master",
       .type = "strings",
       .equation = "nearest: w' = RN(w + D), D = lr · u; stochastic: SR(w + D); precision_aware: "
                   "RN(w + α · u) with |w' - w| = lr · |u|; kahan: RN(w + y), y = D - c, c the "
                   "error of the last; residual: RN(w + c + D), c in residual_bits; "
                   "momentum_feedback: m ← m - (w + D - w') · (1 - β1) / (β1 · η)",
       .example = "[\"stochastic\", \"momentum_feedback\"]",
       .beside = "storage = \"bf16\""},
      [=](RecipeSettings& s, const TomlItem& item) {
        WeightStorage result = s.weights;
        result.update = nearest;
        result.momentum_feedback = false;
        int rules = 0;
        for (const std::string& name : read_texts(item)) {
          const toml::value<std::string> value(name);
          const size_t i = read_choice({&value, item.path, item.place}, names);
          if (i == kUpdateRules.items.size()) {
            result.momentum_feedback = true;
          } else {
            result.update = kUpdateRules.items[i].second;
            ++rules;
          }
        }
        if (rules > 1) item.refuse_value("one rule: two would round the same sum");
        if (result.momentum_feedback && result.update == precision_aware)
          item.refuse_value(
              "one of them: what is fed back is the error of a step as long as "
              "Adam's, and precision_aware takes another");
        if (result.momentum_feedback && result.update != nearest && result.update != stochastic)
          item.refuse_value("one of them: " + std::string(kUpdateRules.name_of(result.update)) +
                            " keeps the error beside the weight, and it would be made up for "
                            "twice");
        s.weights = result;
      },
      [](const RecipeSettings& s) { return update_text(s.weights); }};
}

Key<RecipeSettings> residual_bits_key() {
  return {{.path = "weights.residual_bits",
           .expected = "8 or 4",
           .doc = "residual: bits of what rounding took off, kept beside each weight",
           .type = "integer",
           .equation = "c = (x - w') in units of ulp(w') / 2^residual_bits",
           .example = "4"},
          [](RecipeSettings& s, const TomlItem& item) {
            const int64_t bits = item.value->is_integer() ? item.value->as_integer()->get() : 0;
            if (bits != 4 && bits != 8) item.refuse_value("8 or 4");
            s.weights.residual_bits = int(bits);
          },
          [](const RecipeSettings& s) { return print_value(int64_t{s.weights.residual_bits}); }};
}

}  // namespace ng
