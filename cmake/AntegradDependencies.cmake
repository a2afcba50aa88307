# Finds what scripts/setup installs, and fetches what is not there: the versions of Debian 12, by
# commit. Every dependency is declared in scripts/setup, with its reason.

include(FetchContent)

# Finds a package of which headers suffice. Where there is none its sources are fetched, and
# `target` gives the headers in `folder` of these.
macro(antegrad_headers name target repository commit folder)
  FetchContent_Declare(${name} GIT_REPOSITORY "https://github.com/${repository}.git" GIT_TAG ${commit}
    SOURCE_SUBDIR none FIND_PACKAGE_ARGS)
  FetchContent_MakeAvailable(${name})
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} INTERFACE "${${name}_SOURCE_DIR}/${folder}")
  endif()
endmacro()

antegrad_headers(fmt fmt::fmt-header-only
  fmtlib/fmt a33701196adfad74917046096bf5a2aa0ab0bb50 include)  # 9.1.0
antegrad_headers(xxhash xxhash::xxhash
  Cyan4973/xxHash 35b0373c697b5f160d3db26b1cbb45a0d5ba788c .)  # 0.8.1
antegrad_headers(nlohmann_json nlohmann_json::nlohmann_json
  nlohmann/json bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d include)  # 3.11.2
if(ANTEGRAD_TOOL)
  antegrad_headers(CLI11 CLI11::CLI11
    CLIUtils/CLI11 291c58789c031208f08f4f261a858b5b7083e8e2 include)  # 2.3.2
  set(ZLIB_USE_STATIC_LIBS ${ANTEGRAD_PORTABLE})
  find_package(ZLIB REQUIRED)
endif()
if(ANTEGRAD_TESTS)
  find_package(GTest REQUIRED)
endif()

# fmt as the library that is installed, or all of it from its headers.
if(TARGET fmt::fmt AND NOT ANTEGRAD_PORTABLE)
  set(antegrad_fmt fmt::fmt)
else()
  set(antegrad_fmt fmt::fmt-header-only)
  set_property(TARGET fmt::fmt-header-only PROPERTY INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
endif()
get_target_property(antegrad_fmt_include ${antegrad_fmt} INTERFACE_INCLUDE_DIRECTORIES)

# Cbc: only its header is needed here. The library is loaded when somebody asks for it, since it
# brings a BLAS of its own, whose functions must not come before those of libtorch.
find_path(ANTEGRAD_CBC_INCLUDE coin/Cbc_C_Interface.h)
find_library(ANTEGRAD_CBC_LIBRARY CbcSolver)
mark_as_advanced(ANTEGRAD_CBC_INCLUDE ANTEGRAD_CBC_LIBRARY)

# The remote cache: hiredis speaks Redis' protocol, OpenSSL TLS.
if(ANTEGRAD_REMOTE_CACHE STREQUAL "ON" OR (ANTEGRAD_REMOTE_CACHE STREQUAL "AUTO" AND NOT ANTEGRAD_PORTABLE))
  find_path(ANTEGRAD_HIREDIS_INCLUDE hiredis/hiredis.h)
  find_library(ANTEGRAD_HIREDIS_LIBRARY hiredis)
  mark_as_advanced(ANTEGRAD_HIREDIS_INCLUDE ANTEGRAD_HIREDIS_LIBRARY)
  find_package(OpenSSL 1.1.1 QUIET)
  if(ANTEGRAD_HIREDIS_INCLUDE AND ANTEGRAD_HIREDIS_LIBRARY AND OPENSSL_FOUND)
    set(antegrad_redis ${ANTEGRAD_HIREDIS_LIBRARY} OpenSSL::SSL OpenSSL::Crypto)
  elseif(ANTEGRAD_REMOTE_CACHE STREQUAL "ON")
    message(FATAL_ERROR "ANTEGRAD_REMOTE_CACHE is ON: it needs hiredis and OpenSSL (libhiredis-dev, libssl-dev)")
  else()
    message(STATUS "Without the client of the remote cache: no hiredis, or no OpenSSL")
  endif()
endif()

# Process groups of the CPU. Headers only: the code is in libtorch.
if(ANTEGRAD_TORCH_PARTS AND NOT ANTEGRAD_PORTABLE)
  find_path(ANTEGRAD_GLOO_INCLUDE gloo/transport/device.h)
  mark_as_advanced(ANTEGRAD_GLOO_INCLUDE)
  if(ANTEGRAD_GLOO_INCLUDE)
    set(antegrad_gloo ON)
  else()
    message(STATUS "Without process groups of the CPU: no headers of Gloo")
  endif()
endif()

if(ANTEGRAD_TORCH_PARTS)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  find_package(Threads REQUIRED)
  antegrad_headers(spdlog spdlog::spdlog_header_only
    gabime/spdlog 76fb40d95455f249bd70824ecfcae7a8f0930fa3 include)  # 1.10.0
  if(antegrad_fmt STREQUAL "fmt::fmt" AND TARGET spdlog::spdlog)
    set(antegrad_spdlog spdlog::spdlog)
  else()
    # Its own target would link the library of fmt.
    set(antegrad_spdlog antegrad_spdlog)
    add_library(antegrad_spdlog INTERFACE)
    target_compile_definitions(antegrad_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
    target_include_directories(antegrad_spdlog SYSTEM INTERFACE
      $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(antegrad_spdlog INTERFACE Threads::Threads)
  endif()
  if(ANTEGRAD_TESTS)
    find_package(benchmark REQUIRED)
  endif()
  include(AntegradTorch)
endif()
