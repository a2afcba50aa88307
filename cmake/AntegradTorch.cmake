# Finds libtorch and gives two targets:
#   antegrad_torch        what users of antegrad need of libtorch
#   antegrad_torch_build  what all targets of this tree that see libtorch are compiled with. It is
#                         one set for all, because they share a precompiled header.

# scripts/setup leaves the libtorch that it chose in build/setup.env. CMAKE_PREFIX_PATH and
# Torch_DIR, where given, come first.
antegrad_setup_value(setup_prefix ANTEGRAD_TORCH_PREFIX)
# `pip install .`: the torch of the environment that is installed into, which pip hides from what
# builds a package.
if(SKBUILD)
  find_package(Python REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -E -s -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE setup_prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
# Another choice than last time: forget what was found in the old one.
if(DEFINED ANTEGRAD_TORCH_PREFIX_USED AND NOT ANTEGRAD_TORCH_PREFIX_USED STREQUAL setup_prefix)
  foreach(variable Torch_DIR Caffe2_DIR TORCH_LIBRARY c10_LIBRARY kineto_LIBRARY)
    unset(${variable} CACHE)
  endforeach()
endif()
set(ANTEGRAD_TORCH_PREFIX_USED "${setup_prefix}" CACHE INTERNAL "")

# The Python wheel carries kineto inside libtorch_cpu, yet its package file looks for a library of
# that name and warns. TORCH_LIBRARIES, where the answer goes, is not used below: any answer ends
# the search.
if(NOT kineto_LIBRARY)
  set(kineto_LIBRARY c10 CACHE INTERNAL "")
endif()
# Its targets are named by ours, which a project that has this one as a part links.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(Torch QUIET HINTS "${setup_prefix}")
if(NOT Torch_FOUND)
  message(FATAL_ERROR
    "libtorch was not found. Run scripts/setup, or set Torch_DIR to the folder that holds "
    "TorchConfig.cmake, or configure with -DANTEGRAD_TORCH_PARTS=OFF to build the core alone.")
endif()
message(STATUS "libtorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}")
# Without an MKL on this machine libtorch's package names search folders that do not exist, which
# would end up in the run path of everything.
if(TARGET caffe2::mkl AND NOT MKL_FOUND)
  set_property(TARGET caffe2::mkl PROPERTY INTERFACE_LINK_DIRECTORIES "")
endif()

# Files with this end exist twice: with CUDA in the libtorch that was found, and without.
if(TARGET torch_cuda)
  set(antegrad_other_sources "_without_cuda[.]cpp$")
else()
  set(antegrad_other_sources "_with_cuda[.]cpp$")
endif()

# NCCL: headers only, of the wheel that libtorch's own depends on or of the system.
if(TARGET torch_cuda)
  find_path(ANTEGRAD_NCCL_INCLUDE nccl.h HINTS "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include")
  mark_as_advanced(ANTEGRAD_NCCL_INCLUDE)
  if(ANTEGRAD_NCCL_INCLUDE)
    set(antegrad_nccl ON)
    set_source_files_properties(src/torch_compat/nccl.cpp PROPERTIES
      INCLUDE_DIRECTORIES "${ANTEGRAD_NCCL_INCLUDE}")
  else()
    message(STATUS "Without process groups of GPUs: no headers of NCCL")
  endif()
endif()

add_library(antegrad_torch INTERFACE)
# By target names: TORCH_LIBRARIES holds absolute paths, which an installed package must not.
target_link_libraries(antegrad_torch INTERFACE torch torch_library c10)
separate_arguments(torch_flags NATIVE_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(antegrad_torch INTERFACE ${torch_flags})

# libtorch's headers bring an fmt of another version, without its library. Ours, which spdlog was
# built with, has to be found first: a folder that holds nothing but a link to it, not marked as a
# system folder because those come later.
set(fmt_first "${PROJECT_BINARY_DIR}/fmt_first")
file(MAKE_DIRECTORY "${fmt_first}")
file(CREATE_LINK "${antegrad_fmt_include}/fmt" "${fmt_first}/fmt" SYMBOLIC)

add_library(antegrad_torch_build INTERFACE)
target_include_directories(antegrad_torch_build INTERFACE "${fmt_first}")
# at::parallel_for is a template that runs serially where this flag is missing. The flag alone,
# without the path of the compiler's libgomp: libtorch brings the same library, and one must serve
# the process.
target_compile_options(antegrad_torch_build INTERFACE ${OpenMP_CXX_FLAGS})
target_link_options(antegrad_torch_build INTERFACE ${OpenMP_CXX_FLAGS})
target_link_libraries(antegrad_torch_build INTERFACE
  antegrad_compiler antegrad_torch
  ${antegrad_fmt} ${antegrad_spdlog} xxhash::xxhash nlohmann_json::nlohmann_json
  $<TARGET_NAME_IF_EXISTS:CLI11::CLI11>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees uninitialised memory in libtorch's SmallVector when it inlines it; it says so, and
  # no more.
  target_compile_options(antegrad_torch_build INTERFACE -Wno-error=maybe-uninitialized)
endif()
