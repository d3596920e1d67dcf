# Helpers that keep each folder's CMakeLists.txt to a list of sources and dependencies.

find_program(KZ_CCACHE ccache)
if(KZ_CCACHE)
  # Without these words ccache keeps nothing that uses a precompiled header; no unit of ours prints when it was made.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${KZ_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
find_program(KZ_MOLD mold)

add_library(kz_options INTERFACE)
target_compile_options(kz_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
if(KZ_MOLD)
  target_link_options(kz_options INTERFACE -fuse-ld=mold)
endif()
if(KZ_SANITIZE)
  target_compile_options(kz_options INTERFACE -fsanitize=${KZ_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(kz_options INTERFACE -fsanitize=${KZ_SANITIZE})
endif()
find_package(Threads REQUIRED)

# kz_cool(): nothing in this folder is hot, and a fifth of its compile time goes with -O1.
macro(kz_cool)
  add_compile_options(-O1)
  set(KZ_PRECOMPILED kz_common_cool)
endmacro()

# kz_precompile(target): reads base/common_headers.h in its precompiled form, unless the folder has set KZ_PRECOMPILED to "".
function(kz_precompile target)
  if(TARGET "${KZ_PRECOMPILED}")
    # -fPIC as the precompiled header, where an executable's would be -fPIE. g++ 12 takes what std::string copies for an
    # overflow once <string> comes precompiled.
    target_compile_options(${target} PRIVATE -fPIC -Wno-array-bounds -Wno-stringop-overflow)
    target_precompile_headers(${target} REUSE_FROM ${KZ_PRECOMPILED})
  endif()
endfunction()

# kz_library(NAME folder SOURCES a.cpp … DEPS kz_base …): a static library with project-rooted includes.
function(kz_library)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_library(${A_NAME} STATIC ${A_SOURCES})
  target_include_directories(${A_NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${A_NAME} PUBLIC kz_options Threads::Threads ${A_DEPS})
  kz_precompile(${A_NAME})
endfunction()

# kz_test(NAME keck_job_test SOURCES a_test.cpp … DEPS … LABELS unit): one GoogleTest binary; each case becomes a ctest.
function(kz_test)
  if(NOT KZ_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${A_NAME} ${A_SOURCES})
  target_link_libraries(${A_NAME} PRIVATE kz_options ${A_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  kz_precompile(${A_NAME})
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  gtest_discover_tests(${A_NAME} DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
endfunction()
