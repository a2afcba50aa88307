# Debian's xxhash comes without a CMake package. Gives xxhash::xxhash: a header, which holds all of
# it under XXH_INLINE_ALL.

find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHASH_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxhash REQUIRED_VARS XXHASH_INCLUDE_DIR)

if(xxhash_FOUND AND NOT TARGET xxhash::xxhash)
  add_library(xxhash::xxhash INTERFACE IMPORTED)
  target_include_directories(xxhash::xxhash INTERFACE "${XXHASH_INCLUDE_DIR}")
endif()
