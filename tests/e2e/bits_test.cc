// The weights that each recipe trains, to the bit, as they were before activations were stored in
// BF16 (version 0.1.0 at 74cf025): on several instruction sets and numbers of threads.
#include <sstream>

#include "base/checksum.h"
#include "base/isa.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Bits : public Program {
 protected:
  /// XXH3-128 of the model's weights after six steps of two micro-batches.
  std::string trained(const std::string& architecture, const std::string& recipe, size_t number) {
    std::vector<Isa> isas = supported_isas();
    if (isas.size() > 1) isas.erase(isas.begin());  // the scalar path takes its time
    const Result result =
        run({"train", "tiny.toml", "--out", recipe + architecture, "--recipe", recipe, "--set",
             "model.architecture=\"" + architecture + "\"", "--set", "train.steps=6", "--threads",
             number % 6 == 0   ? "3"
             : number % 6 == 3 ? "2"
                               : "1",
             "--isa", std::string(name_of(isas[number % isas.size()]))});
    EXPECT_EQ(result.code, 0) << result.err;
    const std::string weights = text_of(path(recipe + architecture + "/model/model.safetensors"));
    return checksum_of(std::as_bytes(std::span(weights)));
  }
};

TEST_F(Bits, OfTrainedWeightsStayWhatTheyWere) {
  std::istringstream table(text_of(golden("bits/trained.txt")));
  std::string architecture, recipe, checksum;
  size_t runs = 0;
  while (table >> architecture >> recipe >> checksum)
    EXPECT_EQ(trained(architecture, recipe, runs++), checksum) << architecture << ' ' << recipe;
  EXPECT_EQ(runs, 52u);
}

}  // namespace
}  // namespace ng::e2e
