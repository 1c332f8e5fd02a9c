#include "base/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace ng {
namespace {

template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Json, RefusesWhatIsAmbiguousOrDeep) {
  EXPECT_EQ(error_of([] { (void)parse_json(R"({"a":{"b":1},"c":{"b":2}})", "f"); }), "accepted");
  EXPECT_EQ(error_of([] { (void)parse_json(R"({"a":1,"a":2})", "f"); }),
            "f: \"a\": is given twice: give each key once");
  EXPECT_EQ(error_of([] { (void)parse_json("[[[]]]", "f", 3); }), "accepted");
  EXPECT_NE(error_of([] { (void)parse_json("[[[[]]]]", "f", 3); }).find("deeper than 3"),
            std::string::npos);
  const std::string deep(1'000'000, '[');
  EXPECT_NE(error_of([&] { (void)parse_json(deep, "f"); }).find("deeper"), std::string::npos);
  using std::string_literals::operator""s;
  for (const std::string& bad : {"{}\0"s, "{}\0{\"a\":1}"s, "{\0}"s, "\0"s})
    EXPECT_NE(
        error_of([&] { (void)parse_json(bad, "f"); }).find("f: not valid JSON: a NUL at byte"),
        std::string::npos);
  for (const char* bad : {"", "{", "{\"a\":}", "nul", "1 2", "\"\xFF\"", "1e999", "{\"a\":1,}"}) {
    EXPECT_NE(error_of([&] { (void)parse_json(bad, "f"); }).find("f: not valid JSON: "),
              std::string::npos)
        << bad;
  }
}

// A header of many tensors: 100,000 objects were 5·10^9 steps when each walked through the others.
TEST(Json, TakesTimeByItsSize) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("\"{}\":{{\"a\":[0,1]}},", i);
  text.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "f").size(), 100'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Json, HoldsEveryKindOfValue) {
  const char* text = R"({"a":[],"b":{"c":[[1,-2,2.5],{"d":null}]},"e":true,"f":"\u00e9"})";
  EXPECT_EQ(parse_json(text, "f"), Json::parse(text));
  EXPECT_EQ(parse_json("[1]", "f"), Json::parse("[1]"));
  EXPECT_EQ(parse_json(" 7 ", "f"), 7);
}

TEST(Json, IsTextWhateverItsStringsHold) {
  EXPECT_EQ(json_text({{"a\xFF", "\xC3"}}), "{\"a\uFFFD\":\"\uFFFD\"}");
  EXPECT_EQ(json_text({1, 2}, 1), "[\n 1,\n 2\n]");
  const OrderedJson ordered = {{"b", "\xC3"}, {"a", 1}};
  EXPECT_EQ(json_text(ordered), "{\"b\":\"\uFFFD\",\"a\":1}");
}

TEST(Json, LinesOfALogAreJsonOrDiscarded) {
  EXPECT_EQ(parse_json_line("{\"a\":1}"), (Json{{"a", 1}}));
  EXPECT_TRUE(parse_json_line("{\"a\":").is_discarded());
  EXPECT_TRUE(parse_json_line(std::string_view("{}\0}", 4)).is_discarded());
}

TEST(Json, NamesKeyAndValue) {
  const Json json = parse_json(
      R"({"i":3,"big":18446744073709551615,"x":0.5,"s":"t","n":null,"o":{"j":-1},"b":true})", "f");
  const JsonObject object(json, "f");
  EXPECT_EQ(object.integer("i", 3, 3), 3);
  EXPECT_EQ(object.number("i", 0, 9), 3.0);
  EXPECT_EQ(object.integer_or("n", 0, 9, 7), 7);
  EXPECT_EQ(object.boolean_or("b", false), true);
  EXPECT_EQ(object.text_or("none", "d"), "d");
  EXPECT_EQ(error_of([&] { (void)object.integer("i", 4, 9); }), "f: i: 3: an integer from 4 to 9");
  EXPECT_EQ(error_of([&] { (void)object.integer("big", 0, 9); }),
            "f: big: 18446744073709551615: an integer from 0 to 9");
  EXPECT_EQ(error_of([&] { (void)object.integer("x", 0, 9); }),
            "f: x: 0.5: an integer from 0 to 9");
  EXPECT_EQ(error_of([&] { (void)object.object("o").integer("j", 0, 9); }),
            "f: o.j: -1: an integer from 0 to 9");
  EXPECT_EQ(error_of([&] { (void)object.object("s"); }),
            "f: s: \"t\" is not an object: write {\"key\": value, ...}");
  EXPECT_EQ(error_of([&] { (void)object.text("n"); }), "f: n: missing: a string");
  EXPECT_EQ(error_of([&] { (void)object.number("s", 0, 1); }), "f: s: \"t\": a number from 0 to 1");
}

}  // namespace
}  // namespace ng
