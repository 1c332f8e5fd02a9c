// In which phase of a recipe something is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "recipe/recipe.h"

namespace ng {

/// What --phase says, and what is taken without it.
struct PhaseChoice {
  enum class End : uint8_t { first, last };

  /// A number from 0, the base, on; "first", "last"; "step:S" or "step:S/N", the phase of step
  /// S + 1, which is taken next when S of N steps are done; empty: nothing was said.
  std::string word = {};
  End otherwise = End::last;
  /// N of "step:S"; empty, or none where it is not known.
  std::function<std::optional<int64_t>()> steps = {};
};

/// A phase of a recipe, and whether somebody chose it.
struct MeasuredPhase {
  int index = 0;
  int count = 1;            ///< phases of the recipe
  double from = 0, to = 1;  ///< shares of training
  bool is_chosen = false;

  /// "phase 1 (the last of 2: from 82 % of training on)"; empty where there is but one.
  [[nodiscard]] std::string text() const;
};

/// Throws Error at --phase where the recipe has no such phase, or N is missing.
[[nodiscard]] MeasuredPhase measured_phase(const Recipe& recipe, const PhaseChoice& choice);
/// The phase of this number.
[[nodiscard]] MeasuredPhase phase_of(const Recipe& recipe, int index);

/// "nvfp4-late-bf16, phase 1 (the last of 2: from 82 % of training on)"
[[nodiscard]] std::string text_of(const Recipe& recipe, const MeasuredPhase& phase);
/// What a user must know where there are several phases and nobody chose one; else empty.
[[nodiscard]] std::string note_of(const Recipe& recipe, const MeasuredPhase& phase);

}  // namespace ng
