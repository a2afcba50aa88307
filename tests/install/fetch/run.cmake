# Configures the project in this folder, which has antegrad as a part of itself; in the long form it
# is built and run. Run by ctest.

set(work "${BUILD_DIR}/fetch_test")
file(REMOVE_RECURSE "${work}")

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

step("${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}"
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DANTEGRAD_SOURCE=${SOURCE_DIR}" "-DCMAKE_PREFIX_PATH=${TORCH_DIR}")
# Nothing of ours but the library.
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}" -- -t targets all
  OUTPUT_VARIABLE targets COMMAND_ERROR_IS_FATAL ANY)
if(NOT targets MATCHES "libantegrad.so" OR targets MATCHES "antegrad-cli:|core_tests:|antegrad_python:")
  message(FATAL_ERROR "expected the library and nothing besides as a part of another project; found ${targets}")
endif()
if(DEFINED ENV{ANTEGRAD_TEST_LONG})
  step("${CMAKE_COMMAND}" --build "${work}" --target outside)
  step("${work}/outside")
endif()
