#include "runtime/cuda_code.h"

#include <ATen/Context.h>
#include <antegrad/error.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "torch_compat/current_stream.h"
#include "torch_compat/device_model.h"

namespace antegrad::runtime {
namespace {

using kernels::Failure;
using kernels::Outcome;
using kernels::Reason;

// The functions of NVRTC and of the driver that are used here. Each returns 0 for success.
struct Cuda {
  int (*nvrtcVersion)(int* major, int* minor);
  int (*nvrtcCreateProgram)(void** program, const char* source, const char* name, int headers,
                            const char* const* texts, const char* const* names);
  int (*nvrtcDestroyProgram)(void** program);
  int (*nvrtcCompileProgram)(void* program, int count, const char* const* options);
  int (*nvrtcGetProgramLogSize)(void* program, size_t* size);
  int (*nvrtcGetProgramLog)(void* program, char* log);
  int (*nvrtcGetCUBINSize)(void* program, size_t* size);
  int (*nvrtcGetCUBIN)(void* program, char* cubin);
  int (*cuDriverGetVersion)(int* version);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuCtxGetCurrent)(void** context);
  int (*cuCtxSetCurrent)(void* context);
  int (*cuModuleLoadData)(void** module, const void* image);
  int (*cuModuleUnload)(void* module);
  int (*cuModuleGetFunction)(void** function, void* module, const char* name);
  int (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        void* stream, void** arguments, void** extra);
  int (*cuGetErrorString)(int error, const char** text);
};

constexpr const char* kNoCuda = "libtorch brings no NVRTC";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// A library of libtorch that is linked with both.
void* library_of_libtorch() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&at::globalContext), &info) == 0) return nullptr;
  const auto file = std::filesystem::path(info.dli_fname).parent_path() / "libcaffe2_nvrtc.so";
  return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

const Cuda* load() {
  void* const library = library_of_libtorch();
  if (library == nullptr) return nullptr;
  static Cuda cuda;
  const auto all = [&](auto... found) { return (found && ...); };
#define ANTEGRAD_FIND(name) find(library, #name, cuda.name)
  const bool found = all(ANTEGRAD_FIND(nvrtcVersion), ANTEGRAD_FIND(nvrtcCreateProgram),
                         ANTEGRAD_FIND(nvrtcDestroyProgram), ANTEGRAD_FIND(nvrtcCompileProgram),
                         ANTEGRAD_FIND(nvrtcGetProgramLogSize), ANTEGRAD_FIND(nvrtcGetProgramLog),
                         ANTEGRAD_FIND(nvrtcGetCUBINSize), ANTEGRAD_FIND(nvrtcGetCUBIN),
                         ANTEGRAD_FIND(cuDriverGetVersion), ANTEGRAD_FIND(cuDeviceGet),
                         ANTEGRAD_FIND(cuDeviceGetAttribute),
                         ANTEGRAD_FIND(cuDevicePrimaryCtxRetain), ANTEGRAD_FIND(cuCtxGetCurrent),
                         ANTEGRAD_FIND(cuCtxSetCurrent), ANTEGRAD_FIND(cuModuleLoadData),
                         ANTEGRAD_FIND(cuModuleUnload), ANTEGRAD_FIND(cuModuleGetFunction),
                         ANTEGRAD_FIND(cuLaunchKernel), ANTEGRAD_FIND(cuGetErrorString));
#undef ANTEGRAD_FIND
  return found ? &cuda : nullptr;
}

// Null where there is none.
const Cuda* cuda_of_process() {
  static const Cuda* const cuda = at::hasCUDA() ? load() : nullptr;
  return cuda;
}

std::string text_of(const Cuda& cuda, int error) {
  const char* text = nullptr;
  cuda.cuGetErrorString(error, &text);
  return text == nullptr ? fmt::format("error {}", error) : text;
}

// "sm_90"; empty, which no compiler takes, if the driver does not say it.
std::string architecture_of(const Cuda& cuda, c10::Device device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_
  int found = 0, major = 0, minor = 0;
  if (cuda.cuDeviceGet(&found, device.index()) != 0 ||
      cuda.cuDeviceGetAttribute(&major, kMajor, found) != 0 ||
      cuda.cuDeviceGetAttribute(&minor, kMinor, found) != 0) {
    return "";
  }
  return fmt::format("sm_{}{}", major, minor);
}

// "NVRTC 13.0"
std::string nvrtc_of(const Cuda& cuda) {
  int major = 0, minor = 0;
  cuda.nvrtcVersion(&major, &minor);
  return fmt::format("NVRTC {}.{}", major, minor);
}

// A thread on which nothing ran yet has no context; libtorch uses the primary one of each device.
void use_context(const Cuda& cuda, c10::Device device) {
  void* context = nullptr;
  if (cuda.cuCtxGetCurrent(&context) == 0 && context != nullptr) return;
  int found = 0;
  if (cuda.cuDeviceGet(&found, device.index()) == 0 &&
      cuda.cuDevicePrimaryCtxRetain(&context, found) == 0) {
    cuda.cuCtxSetCurrent(context);
  }
}

struct Known {
  std::mutex mutex;
  // A function holds its code, so the address of code that lives on is that of no other.
  std::map<std::pair<c10::DeviceIndex, const kernels::DeviceCode*>,
           std::weak_ptr<const CudaFunction>>
      functions;

  static Known& of_process() {
    static auto* const known = new Known();
    return *known;
  }
};

}  // namespace

Outcome<std::shared_ptr<const CudaFunction>> CudaFunction::load(
    std::shared_ptr<const kernels::DeviceCode> code, const std::string& name, c10::Device device) {
  const Cuda* const cuda = cuda_of_process();
  if (cuda == nullptr) return Failure{Reason::no_compiler, kNoCuda};
  auto& known = Known::of_process();
  const std::lock_guard lock(known.mutex);
  auto& function_of_code = known.functions[{device.index(), code.get()}];
  if (auto function = function_of_code.lock()) return function;
  const c10::DeviceGuard guard(device);
  use_context(*cuda, device);
  const auto failed = [&](int error) {
    return Failure{Reason::not_loadable, "the driver says: " + text_of(*cuda, error)};
  };
  void* module = nullptr;
  if (const int error = cuda->cuModuleLoadData(&module, code->view().data()); error != 0) {
    return failed(error);
  }
  void* function = nullptr;
  if (const int error = cuda->cuModuleGetFunction(&function, module, name.c_str()); error != 0) {
    cuda->cuModuleUnload(module);
    return failed(error);
  }
  void* finish = nullptr;
  if (cuda->cuModuleGetFunction(&finish, module, (name + "_finish").c_str()) != 0) finish = nullptr;
  std::shared_ptr<const CudaFunction> loaded(
      new CudaFunction(std::move(code), device, module, function, finish));
  function_of_code = loaded;
  return loaded;
}

CudaFunction::~CudaFunction() {
  const c10::DeviceGuard guard(device_);
  cuda_of_process()->cuModuleUnload(module_);
}

void CudaFunction::launch(int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const {
  start(function_, blocks, threads, words);
}

void CudaFunction::finish(int64_t blocks, int32_t threads, std::vector<uint64_t>& words) const {
  AG_CHECK(finish_ != nullptr, "a kernel with a second function");
  start(finish_, blocks, threads, words);
}

void CudaFunction::start(void* function, int64_t blocks, int32_t threads,
                         std::vector<uint64_t>& words) const {
  const c10::DeviceGuard guard(device_);
  void* argument = words.data();
  const Cuda& cuda = *cuda_of_process();
  use_context(cuda, device_);
  const int error = cuda.cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1,
                                        static_cast<unsigned>(threads), 1, 1, 0,
                                        torch_compat::current_stream(device_), &argument, nullptr);
  if (error != 0) {
    throw Error(ErrorText{"a generated kernel that starts on " + device_.str(),
                          "that the driver says: " + text_of(cuda, error),
                          "run with lowering=off, and report it"});
  }
}

bool has_cuda_code() { return cuda_of_process() != nullptr; }

kernels::DeviceSource cuda_source(std::string text, c10::Device device) {
  const Cuda& cuda = *cuda_of_process();
  // Functions of CUDA are as exact as in libtorch's kernels; roundings of ours are intrinsics.
  return {.text = std::move(text),
          .compiler = nvrtc_of(cuda),
          .arguments = {"--gpu-architecture=" + architecture_of(cuda, device), "--std=c++17"},
          .made_for = torch_compat::libtorch_version()};
}

Outcome<std::string> compile_for_cuda(const kernels::DeviceSource& source) {
  const Cuda* const cuda = cuda_of_process();
  if (cuda == nullptr) return Failure{Reason::no_compiler, kNoCuda};
  void* program = nullptr;
  if (cuda->nvrtcCreateProgram(&program, source.text.c_str(), "antegrad.cu", 0, nullptr, nullptr) !=
      0) {
    return Failure{Reason::compiler_failed, "NVRTC takes no program"};
  }
  std::vector<const char*> options;
  for (const auto& argument : source.arguments) options.push_back(argument.c_str());
  const int status =
      cuda->nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  size_t size = 0;
  std::string result;
  if (status == 0 && cuda->nvrtcGetCUBINSize(program, &size) == 0) {
    result.resize(size);
    cuda->nvrtcGetCUBIN(program, result.data());
  } else if (cuda->nvrtcGetProgramLogSize(program, &size) == 0) {
    result.resize(size);
    cuda->nvrtcGetProgramLog(program, result.data());
  }
  cuda->nvrtcDestroyProgram(&program);
  if (status == 0 && !result.empty()) return result;
  return Failure{Reason::compiler_failed, "NVRTC says: " + result.substr(0, result.find('\0'))};
}

std::string cuda_code_maker(c10::Device device) {
  const Cuda& cuda = *cuda_of_process();
  int driver = 0;
  cuda.cuDriverGetVersion(&driver);
  return fmt::format("{}, {}, libtorch {}, {}, driver {}", torch_compat::cuda_model(device),
                     architecture_of(cuda, device), torch_compat::libtorch_version(),
                     nvrtc_of(cuda), driver);
}

}  // namespace antegrad::runtime
