# What every target is compiled with: warnings, and a compiler cache where one is installed.

add_library(antegrad_compiler INTERFACE)
target_compile_options(antegrad_compiler INTERFACE
  -Wall -Wextra $<$<BOOL:${ANTEGRAD_WERROR}>:-Werror>
  # One way of position independence for libraries and programs, so that they can share a
  # precompiled header.
  -fPIC)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of an overlap inside std::string's operator+ that cannot be (GCC bug 105651).
  target_compile_options(antegrad_compiler INTERFACE -Wno-restrict)
endif()

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Sloppiness: what ccache asks for to cache files that use a precompiled header. Base directory:
  # checkouts at different paths share entries.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    "${CCACHE_PROGRAM}")
endif()
