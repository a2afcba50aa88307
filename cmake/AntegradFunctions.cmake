# Helpers of the CMakeLists in this tree.

# All .cpp files of these folders and the folders in them; a folder may be missing or empty.
function(antegrad_sources result)
  list(TRANSFORM ARGN APPEND "/*.cpp" OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" ${patterns})
  set(${result} "${files}" PARENT_SCOPE)
endfunction()

# The .cpp files of this folder itself that match the pattern.
function(antegrad_sources_here result pattern)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${pattern}")
  set(${result} "${files}" PARENT_SCOPE)
endfunction()

# What scripts/setup left in build/setup.env under this name; empty where there is none.
function(antegrad_setup_value result name)
  set(value "")
  set(file "${PROJECT_SOURCE_DIR}/build/setup.env")
  if(EXISTS "${file}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(STRINGS "${file}" value REGEX "^${name}=")
    string(REGEX REPLACE "^${name}=" "" value "${value}")
  endif()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

# Compiles a target of this tree like the library: same flags, same precompiled header.
function(antegrad_use_torch_build target)
  target_link_libraries(${target} PRIVATE antegrad_torch_build)
  get_target_property(header antegrad PRECOMPILE_HEADERS)
  if(header)
    target_precompile_headers(${target} REUSE_FROM antegrad)
  endif()
endfunction()
