#include "recipe/phase_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace ng {
namespace {

constexpr std::string_view kStep = "step:";

[[noreturn]] void refuse_phase(const std::string& problem, const std::string& remedy) {
  throw Error({.place = "--phase", .key = "", .problem = problem, .remedy = remedy});
}

std::optional<int64_t> count_of(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0) return {};
  return count;
}

[[noreturn]] void refuse_word(const std::string& word) {
  refuse_phase(word, "first, last, a number from 0 on, step:S or step:S/N");
}

/// Of "step:S" and "step:S/N".
int phase_at_step(const Recipe& recipe, const PhaseChoice& choice) {
  const std::string_view said = std::string_view(choice.word).substr(kStep.size());
  const size_t slash = said.find('/');
  const std::optional<int64_t> step = count_of(said.substr(0, slash));
  std::optional<int64_t> steps;
  if (slash != std::string_view::npos)
    steps = count_of(said.substr(slash + 1));
  else if (choice.steps)
    steps = choice.steps();
  if (!step || (slash != std::string_view::npos && !steps)) refuse_word(choice.word);
  if (!steps)
    refuse_phase(
        fmt::format("{} of how many?", choice.word),
        fmt::format("{}/N, N the steps of training; or first, last, a number", choice.word));
  if (*step > *steps || *steps == 0)
    refuse_phase(choice.word, fmt::format("a step from 0 to {}", *steps));
  return recipe.phase_at(static_cast<double>(*step) / static_cast<double>(*steps));
}

int chosen_index(const Recipe& recipe, const PhaseChoice& choice) {
  const int last = static_cast<int>(recipe.phase_starts().size()) - 1;
  const std::string& word = choice.word;
  if (word.empty()) return choice.otherwise == PhaseChoice::End::first ? 0 : last;
  if (word == "first") return 0;
  if (word == "last") return last;
  if (word.starts_with(kStep)) return phase_at_step(recipe, choice);
  const std::optional<int64_t> number = count_of(word);
  if (!number) refuse_word(word);
  if (*number > last)
    refuse_phase(word, last == 0
                           ? fmt::format("0, the only one of recipe {}", recipe.name())
                           : fmt::format("recipe {} has phases 0 to {}, the last of which begins "
                                         "at {:g} % of training",
                                         recipe.name(), last, 100 * recipe.phase_starts().back()));
  return static_cast<int>(*number);
}

}  // namespace

std::string MeasuredPhase::text() const {
  if (count == 1) return "";
  if (index == 0)
    return fmt::format("phase 0 (the first of {}: up to {:g} % of training)", count, 100 * to);
  if (index == count - 1)
    return fmt::format("phase {} (the last of {}: from {:g} % of training on)", index, count,
                       100 * from);
  return fmt::format("phase {} (of {}: from {:g} to {:g} % of training)", index, count, 100 * from,
                     100 * to);
}

MeasuredPhase phase_of(const Recipe& recipe, int index) {
  const std::vector<double>& starts = recipe.phase_starts();
  const auto at = static_cast<size_t>(index);
  NG_CHECK(index >= 0 && at < starts.size(), index, starts.size());
  return {.index = index,
          .count = static_cast<int>(starts.size()),
          .from = starts[at],
          .to = at + 1 < starts.size() ? starts[at + 1] : 1};
}

MeasuredPhase measured_phase(const Recipe& recipe, const PhaseChoice& choice) {
  MeasuredPhase phase = phase_of(recipe, chosen_index(recipe, choice));
  phase.is_chosen = !choice.word.empty();
  return phase;
}

std::string text_of(const Recipe& recipe, const MeasuredPhase& phase) {
  const std::string in_phase = phase.text();
  return recipe.name() + (in_phase.empty() ? "" : ", " + in_phase);
}

std::string note_of(const Recipe& recipe, const MeasuredPhase& phase) {
  if (phase.count == 1 || phase.is_chosen) return "";
  return fmt::format(
      "recipe {} has {} phases, and none was chosen: measured is {}; --phase first, last, N or "
      "step:S chooses",
      recipe.name(), phase.count, phase.text());
}

}  // namespace ng
