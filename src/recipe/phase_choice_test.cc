// Which phase --phase means, and what is said of it.
#include "recipe/phase_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

Recipe in_three_phases() {
  return Recipe::parse(
      "name = 'three'\nlinear = 'mxfp4'\n"
      "phase = [{start=0.25, linear='fp8_e4m3'}, {start=0.82, linear='bf16'}]\n",
      "three.toml");
}

MeasuredPhase chosen(const std::string& word, const Recipe& recipe = in_three_phases()) {
  return measured_phase(recipe, {.word = word, .steps = [] { return 100; }});
}

std::string refusal(const std::string& word, const PhaseChoice& choice = {}) {
  try {
    PhaseChoice with_word = choice;
    with_word.word = word;
    (void)measured_phase(in_three_phases(), with_word);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PhaseChoice, IsANumberAnEndOrAStep) {
  for (const auto& [word, index] : {std::pair("0", 0),
                                    {"1", 1},
                                    {"2", 2},
                                    {"first", 0},
                                    {"last", 2},
                                    {"step:0", 0},
                                    {"step:24", 0},
                                    {"step:25", 1},
                                    {"step:82", 2},
                                    {"step:100", 2},
                                    {"step:1/2", 1}}) {
    EXPECT_EQ(chosen(word).index, index) << word;
    EXPECT_TRUE(chosen(word).is_chosen);
  }
  EXPECT_EQ(measured_phase(in_three_phases(), {}).index, 2);
  EXPECT_EQ(measured_phase(in_three_phases(), {.otherwise = PhaseChoice::End::first}).index, 0);
}

TEST(PhaseChoice, OfOnePhaseIsThatOne) {
  const Recipe one = Recipe::parse("linear='bf16'", "one.toml");
  for (const char* word : {"", "0", "first", "last", "step:7"})
    EXPECT_EQ(chosen(word, one).index, 0);
  EXPECT_EQ(chosen("0", one).text(), "");
  EXPECT_EQ(text_of(one, chosen("0", one)), "one");
  EXPECT_EQ(note_of(one, measured_phase(one, {})), "");
}

TEST(PhaseChoice, IsSaidInWords) {
  EXPECT_EQ(chosen("0").text(), "phase 0 (the first of 3: up to 25 % of training)");
  EXPECT_EQ(chosen("1").text(), "phase 1 (of 3: from 25 to 82 % of training)");
  EXPECT_EQ(text_of(in_three_phases(), chosen("2")),
            "three, phase 2 (the last of 3: from 82 % of training on)");
  EXPECT_EQ(note_of(in_three_phases(), chosen("2")), "");
  EXPECT_EQ(note_of(in_three_phases(), measured_phase(in_three_phases(), {})),
            "recipe three has 3 phases, and none was chosen: measured is phase 2 (the last of 3: "
            "from 82 % of training on); --phase first, last, N or step:S chooses");
}

TEST(PhaseChoice, ThatIsNoneIsRefused) {
  EXPECT_EQ(refusal("3"),
            "--phase: 3: recipe three has phases 0 to 2, the last of which begins at 82 % of "
            "training");
  for (const char* word :
       {"late", "-1", "1.5", "step:", "step:x", "step:-1", "step:1/", "step:1/x"})
    EXPECT_NE(refusal(word).find("first, last, a number from 0 on, step:S or step:S/N"),
              std::string::npos)
        << refusal(word);
  EXPECT_EQ(refusal("step:7"),
            "--phase: step:7 of how many?: step:7/N, N the steps of training; or first, last, a "
            "number");
  EXPECT_NE(refusal("step:7/5").find("a step from 0 to 5"), std::string::npos);
  EXPECT_NE(refusal("step:0/0").find("a step from 0 to 0"), std::string::npos);
}

}  // namespace
}  // namespace ng
