// narrowgauge info: what this build is and what it found.
#include <optional>

#include "base/amx.h"
#include "base/cuda_machine.h"
#include "base/error.h"
#include "base/isa.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/units.h"
#include "base/version.h"
#include "cli/command.h"
#include "recipe/recipe.h"
#include "run/backends.h"
#include "speed/machine.h"

namespace ng::cli {
namespace {

struct InfoArgs {
  bool json = false;
};

std::vector<std::string_view> isa_names_here() {
  std::vector<std::string_view> names;
  for (const Isa isa : supported_isas()) names.push_back(name_of(isa));
  return names;
}

/// What `--backend cuda` is here.
struct CudaBackend {
  std::optional<std::string> missing;  ///< why it cannot run; none: it can
  std::vector<ProductMode> products;   ///< of its first card
};

CudaBackend cuda_backend() {
  try {
    return {.missing = {}, .products = make_backend("cuda", {1})->product_modes()};
  } catch (const Error& error) {
    return {.missing = error.parts().problem, .products = {}};
  } catch (const std::exception& failure) {  // of a card that is not in order
    return {.missing = failure_text(failure), .products = {}};
  }
}

Json products_json(const std::vector<ProductMode>& products) {
  Json rows = Json::array();
  for (const ProductMode& mode : products)
    rows.push_back({{"mode", mode.name},
                    {"algorithm", mode.refusal.empty()},
                    {"why", mode.refusal.empty() ? Json() : Json(mode.refusal)}});
  return rows;
}

/// A line for each.
std::string products_text(const std::vector<ProductMode>& products) {
  std::string text;
  for (const ProductMode& mode : products)
    text += fmt::format("  {:<26} {}\n", mode.name,
                        mode.refusal.empty() ? "yes" : "no: " + mode.refusal);
  return text;
}

Json cuda_json(const CudaMachine& machine, const CudaBackend& backend) {
  Json devices = Json::array();
  for (const CudaDevice& device : machine.devices)
    devices.push_back({{"name", device.name}, {"sm", device.sm}, {"memory", device.memory_bytes}});
  const auto text_or_null = [](const std::optional<std::string>& text) {
    return text ? Json(*text) : Json();
  };
  return {
      {"built", !cuda_architectures().empty()},     {"architectures", cuda_architectures()},
      {"driver", text_or_null(machine.driver)},     {"devices", devices},
      {"cublaslt", text_or_null(machine.cublaslt)}, {"nccl", text_or_null(machine.nccl)},
      {"missing", text_or_null(backend.missing)},   {"products", products_json(backend.products)}};
}

std::string cuda_text(const CudaMachine& machine, const std::optional<std::string>& missing) {
  const auto cards = cuda_architectures();
  const std::string built =
      cards.empty() ? "not built" : fmt::format("built for sm_{}", fmt::join(cards, " "));
  const std::string driver = machine.driver ? "for CUDA " + *machine.driver : "not found";
  return fmt::format("{}; driver {}, {}, cuBLASLt {}, NCCL {}{}", built, driver,
                     counted(static_cast<int64_t>(machine.devices.size()), "device"),
                     machine.cublaslt.value_or("not found"), machine.nccl.value_or("not found"),
                     missing ? "; --backend " + *missing : "");
}

void info(const InfoArgs& args) {
  const MachineMemory memory = machine_memory();
  const Threads all{available_cores()};
  const double peak = measured_peak_flops(all);
  const CudaMachine cuda = cuda_machine();
  const CudaBackend cuda_here = cuda_backend();
  const Json json = {{"version", version()},
                     {"compiler", compiler()},
                     {"cpu", cpu_model()},
                     {"cpu_features", cpu_features()},
                     {"amx", text_of(amx_state())},
                     {"isas", isa_names_here()},
                     {"isa", name_of(current_isa())},
                     {"backends", backend_names()},
                     {"threads", all.count},
                     {"memory_bytes", memory.total},
                     {"memory_available_bytes", memory.available},
                     {"peak_flops", peak},
                     {"recipe_folders", recipe_folders()},
                     {"cuda", cuda_json(cuda, cuda_here)}};
  if (args.json) return print_json(json);
  const auto line = [](const char* what, std::string_view value) {
    print("{:<16} {}\n", what, value);
  };
  const auto size = [](size_t bytes) { return size_text(static_cast<double>(bytes)); };
  line("version", version());
  line("compiler", compiler());
  line("cpu", cpu_model());
  line("features", cpu_features());
  line("instructions",
       fmt::format("{}, using {}", fmt::join(isa_names_here(), " "), name_of(current_isa())));
  line("AMX", text_of(amx_state()));
  line("backends", fmt::format("{}", fmt::join(backend_names(), " ")));
  line("cuda", cuda_text(cuda, cuda_here.missing));
  if (!cuda_here.products.empty()) line("cuBLASLt has", "products of its first card:");
  print("{}", products_text(cuda_here.products));
  line("threads", std::to_string(all.count));
  line("memory", size(memory.total) + ", available " + size(memory.available));
  line("measured peak", fmt::format("{:.3g} GFLOP/s in FP32", peak / 1e9));
  line("recipes in", fmt::format("{}", fmt::join(recipe_folders(), " ")));
}

void declare_info(Flags flags, InfoArgs& args) {
  flags.flag("--json", args.json, "print one JSON object");
}

}  // namespace

const Command kInfo{"info", "this build, the CPU features found and used, backends, memory",
                    with_flags<InfoArgs, declare_info, info>};

}  // namespace ng::cli
