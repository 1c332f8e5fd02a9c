#include "recipe/key_facts.h"
#include "train/run_keys.h"

namespace ng {

std::vector<KeyFacts> run_key_facts() {
  const RunConfig defaults = RunConfig::parse("", "");
  std::vector<KeyFacts> all;
  for (const Key<RunConfig>& key : run_keys())
    add_key_facts(all, facts_of(key, "run file", key.print(defaults)));
  return all;
}

}  // namespace ng
