# `cmake --install`: the command-line tool and, with the libtorch parts, library, headers and a
# package that find_package(antegrad) finds.

if(TARGET antegrad-cli)
  install(TARGETS antegrad-cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

if(ANTEGRAD_TORCH_PARTS)
  include(CMakePackageConfigHelpers)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/antegrad")

  install(DIRECTORY include/antegrad DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
  install(TARGETS antegrad antegrad_torch EXPORT antegradTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT antegradTargets NAMESPACE antegrad:: DESTINATION "${package_dir}")

  configure_package_config_file(cmake/antegradConfig.cmake.in antegradConfig.cmake
    INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(antegradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES
    "${PROJECT_BINARY_DIR}/antegradConfig.cmake" "${PROJECT_BINARY_DIR}/antegradConfigVersion.cmake"
    DESTINATION "${package_dir}")
endif()
