# Installs BUILD_DIR into an empty prefix, then configures, builds and runs the outside project in
# this folder against it. Run by ctest.

set(work "${BUILD_DIR}/install_test")
file(REMOVE_RECURSE "${work}")

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

step("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${work}/prefix")
step("${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}/build"
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_PREFIX_PATH=${work}/prefix" "-DTorch_DIR=${TORCH_DIR}")
step("${CMAKE_COMMAND}" --build "${work}/build")
step("${work}/build/outside")
