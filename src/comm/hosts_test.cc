// Files of hosts, as mpirun reads them.
#include "comm/hosts.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

using Hosts = std::vector<Host>;

std::string refusal(std::string_view text) {
  try {
    (void)parse_hosts(text, "hosts");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Hosts, AreReadInTheOrderOfTheFile) {
  EXPECT_EQ(parse_hosts("# two racks\nb slots=4\n\n  a\t slots=2 # slow\nc\n", "hosts"),
            (Hosts{{"b", 4}, {"a", 2}, {"c", 1}}));
  EXPECT_EQ(parse_hosts("a\na slots=2\na", "hosts"), (Hosts{{"a", 4}})) << "lines add up";
}

TEST(Hosts, WhatIsNoHostIsNamedWithItsLine) {
  EXPECT_EQ(refusal("a slots=2\nb slots=0\n"),
            "hosts:2: b: \"slots=0\": slots=N, N from 1 to 65536");
  EXPECT_EQ(refusal("a slots=2x"), "hosts:1: a: \"slots=2x\": slots=N, N from 1 to 65536");
  EXPECT_EQ(refusal("a max_slots=2"), "hosts:1: a: \"max_slots=2\": slots=N, N from 1 to 65536");
  EXPECT_EQ(refusal("# nobody\n\n"), "hosts: names no host: one to a line: NAME slots=N");
}

TEST(Hosts, FirstOnesAreFilledFirst) {
  const Hosts hosts = {{"a", 2}, {"b", 3}};
  EXPECT_EQ(slots_of(hosts), 5);
  EXPECT_EQ(host_list(hosts, 5), "a:2,b:3");
  EXPECT_EQ(host_list(hosts, 3), "a:2,b:1");
  EXPECT_EQ(host_list(hosts, 2), "a:2");
}

}  // namespace
}  // namespace ng
