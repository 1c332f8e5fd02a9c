#include "base/cuda_machine.h"

#include <fmt/format.h>

#include "base/shared_library.h"

namespace ng {
namespace {

// As cuda.h declares them; 0 is success. [CUDA Driver API 13.0]
using DriverInit = int(unsigned flags);
using DriverVersion = int(int* version);
using DeviceCount = int(int* count);
using DeviceName = int(char* name, int length, int device);
using DeviceMemory = int(size_t* bytes, int device);
using DeviceAttribute = int(int* value, int attribute, int device);
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kNameLength = 256;

std::vector<CudaDevice> devices_of(const SharedLibrary& driver) {
  DriverInit* init = nullptr;
  DeviceCount* count = nullptr;
  DeviceName* name_of = nullptr;
  DeviceMemory* memory_of = nullptr;
  DeviceAttribute* attribute_of = nullptr;
  int devices = 0;
  const bool is_usable = driver.find("cuInit", init) && driver.find("cuDeviceGetCount", count) &&
                         driver.find("cuDeviceGetName", name_of) &&
                         driver.find("cuDeviceTotalMem_v2", memory_of) &&
                         driver.find("cuDeviceGetAttribute", attribute_of);
  if (!is_usable || init(0) != 0 || count(&devices) != 0) return {};
  std::vector<CudaDevice> all;
  for (int device = 0; device < devices; ++device) {
    std::string name(kNameLength, '\0');
    CudaDevice found;
    int major = 0, minor = 0;
    if (name_of(name.data(), kNameLength, device) != 0 ||
        memory_of(&found.memory_bytes, device) != 0 ||
        attribute_of(&major, kCapabilityMajor, device) != 0 ||
        attribute_of(&minor, kCapabilityMinor, device) != 0)
      continue;
    found.name = name.c_str();
    found.sm = 10 * major + minor;
    all.push_back(found);
  }
  return all;
}

}  // namespace

CudaMachine cuda_machine() {
  CudaMachine machine;
  const SharedLibrary driver("libcuda.so.1");
  DriverVersion* version = nullptr;
  int serves = 0;
  if (driver.find("cuDriverGetVersion", version) && version(&serves) == 0) {
    machine.driver = fmt::format("{}.{}", serves / 1000, serves % 1000 / 10);
    machine.devices = devices_of(driver);
  }
  const SharedLibrary cublaslt("libcublasLt.so.13");
  size_t (*get_version)() = nullptr;
  if (cublaslt.find("cublasLtGetVersion", get_version)) {
    const size_t is = get_version();
    machine.cublaslt = fmt::format("{}.{}", is / 10000, is % 10000 / 100);
  }
  const SharedLibrary nccl("libnccl.so.2");
  int (*get_nccl_version)(int*) = nullptr;
  int is = 0;
  if (nccl.find("ncclGetVersion", get_nccl_version) && get_nccl_version(&is) == 0)
    machine.nccl = fmt::format("{}.{}", is / 10000, is % 10000 / 100);
  return machine;
}

}  // namespace ng
