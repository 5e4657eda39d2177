# Installation: both libraries, headers, the program, a CMake package and a pkg-config file. All paths in the installed
# files are relative to where they lie, so that `cmake --install … --prefix anywhere` and moving the tree both work.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hocket)

install(TARGETS hocket hocket_static EXPORT hocket)
install(DIRECTORY include/hocket TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
if(TARGET hocket_program)
  install(TARGETS hocket_program)
endif()

if(TARGET hocket_transport_verbs)
  install(TARGETS hocket_transport_verbs LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/hocket)
endif()

install(EXPORT hocket NAMESPACE hocket:: DESTINATION ${package_dir} FILE hocket-targets.cmake)
configure_package_config_file(src/install/hocket-config.cmake.in hocket-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(hocket-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hocket-config.cmake ${PROJECT_BINARY_DIR}/hocket-config-version.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(pc_private_libraries -pthread)
foreach(library ${library_dependencies})
  if(library MATCHES "/lib([^/]+)\\.(so|a)")
    list(APPEND pc_private_libraries -l${CMAKE_MATCH_1})
  else()
    list(APPEND pc_private_libraries -l${library})
  endif()
endforeach()
list(JOIN pc_private_libraries " " pc_private_libraries)
configure_file(src/install/hocket.pc.in hocket.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hocket.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Where plug-ins are installed, seen from the program: code of the static library finds them from there.
file(RELATIVE_PATH libraries_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_source_files_properties(src/comm/plugin.c PROPERTIES COMPILE_DEFINITIONS
                            HKI_LIBRARIES_FROM_PROGRAMS="${libraries_from_programs}")
