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

# Compiles the sources of a target in groups, each of files that lie in one folder: most of the time
# of a file goes into headers and templates, which a group pays for once. ANTEGRAD_UNITY=OFF
# compiles each file for itself.
function(antegrad_unity target files_a_group)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  list(SORT sources)
  set(last_folder "")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    if(NOT folder STREQUAL last_folder OR in_group EQUAL files_a_group)
      math(EXPR group "${group} + 1")
      set(in_group 0)
    endif()
    math(EXPR in_group "${in_group} + 1")
    set(last_folder "${folder}")
    get_source_file_property(alone "${source}" COMPILE_DEFINITIONS)
    if(NOT alone)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "group_${group}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES 
    UNITY_BUILD ${ANTEGRAD_UNITY} UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
endfunction()
