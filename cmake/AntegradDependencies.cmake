# Finds what scripts/setup installs. Every dependency is declared there, with its reason.

find_package(fmt REQUIRED)
find_package(xxhash REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)

if(ANTEGRAD_TORCH_PARTS)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  find_package(spdlog REQUIRED)
  find_package(benchmark REQUIRED)
  include(AntegradTorch)
endif()
