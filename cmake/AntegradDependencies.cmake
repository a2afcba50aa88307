# Finds what scripts/setup installs. Every dependency is declared there, with its reason.

find_package(fmt REQUIRED)
find_package(xxhash REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)

# Cbc: only its header is needed here. The library is loaded when somebody asks for it, since it
# brings a BLAS of its own, whose functions must not come before those of libtorch.
find_path(ANTEGRAD_CBC_INCLUDE coin/Cbc_C_Interface.h)
find_library(ANTEGRAD_CBC_LIBRARY CbcSolver)
mark_as_advanced(ANTEGRAD_CBC_INCLUDE ANTEGRAD_CBC_LIBRARY)

if(ANTEGRAD_TORCH_PARTS)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  find_package(spdlog REQUIRED)
  find_package(benchmark REQUIRED)
  include(AntegradTorch)
endif()
