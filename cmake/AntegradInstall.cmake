# `cmake --install`: the command-line tool and, with the libtorch parts, library, headers and a
# package that find_package(antegrad) finds. `cpack` makes an archive of the same.

if(TARGET antegrad-cli)
  install(TARGETS antegrad-cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

if(TARGET antegrad-minify)
  set_property(TARGET antegrad-minify APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS antegrad-minify RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" OPTIONAL)
endif()

if(ANTEGRAD_TORCH_PARTS)
  include(CMakePackageConfigHelpers)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/antegrad")

  install(DIRECTORY include/antegrad DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
  install(TARGETS antegrad antegrad_torch EXPORT antegradTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT antegradTargets NAMESPACE antegrad:: DESTINATION "${package_dir}")

  # The build's own libtorch is looked at last, where it is on the machine that uses the library.
  set(antegrad_torch_hint "")
  if(NOT ANTEGRAD_PORTABLE)
    set(antegrad_torch_hint "HINTS \"${Torch_DIR}\"")
  endif()
  configure_package_config_file(cmake/antegradConfig.cmake.in antegradConfig.cmake
    INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(antegradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES
    "${PROJECT_BINARY_DIR}/antegradConfig.cmake" "${PROJECT_BINARY_DIR}/antegradConfigVersion.cmake"
    DESTINATION "${package_dir}")
endif()

install(FILES LICENSE THIRD_PARTY_LICENSES.txt DESTINATION "${CMAKE_INSTALL_DOCDIR}")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME
  "antegrad-${PROJECT_VERSION}-torch${Torch_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
include(CPack)
