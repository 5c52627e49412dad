# Compiler settings shared by every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the source tree are made relative before they are compared, so checkouts in different folders share
  # what they compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_IGNOREOPTIONS=-ffile-prefix-map=* ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

add_library(ingot_options INTERFACE)
target_compile_options(ingot_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
  # Contracting a*b+c into one rounding would make results depend on the compiler's choice.
  -ffp-contract=off
  # Paths in messages and debug information are relative to the source tree (seen from build/<preset> under ccache).
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=../../=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these from inside its own <bits/...> and avx512 headers.
  target_compile_options(ingot_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # clang reports what std::stable_sort of libstdc++ 12 itself calls; g++ still refuses deprecated calls of ours.
  target_compile_options(ingot_options INTERFACE -Wno-deprecated-declarations)
endif()
target_include_directories(ingot_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(INGOT_SANITIZE)
  target_compile_options(ingot_options INTERFACE -fsanitize=${INGOT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ingot_options INTERFACE -fsanitize=${INGOT_SANITIZE})
endif()
if(INGOT_FUZZ)
  target_compile_options(ingot_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
