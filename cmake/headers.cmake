# Target `headers`: every header compiles alone. Not part of the default build; scripts/test builds it.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/src/*.h ${PROJECT_SOURCE_DIR}/include/*.h)
# Parts of a tier's file: they are written in the vector type (vec_<tier>.h) that the file includes before them.
list(FILTER headers EXCLUDE REGEX "src/cpu/simd/(attention_(bf16|body|direct|int8|pairs_direct|pairs_tiled|rows|softmax|store|tiled)|rows_body|vec_math)\\.h$")
set(sources "")
foreach(header IN LISTS headers)
  string(REGEX REPLACE "^(src|include)/" "" name ${header})
  if(name MATCHES "^cuda/" AND NOT INGOT_CUDA)
    continue()
  endif()
  set(source ${CMAKE_BINARY_DIR}/generated/headers/${name}.cpp)
  # Twice, so that a missing include guard shows too.
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${name}\"\n#include \"${name}\"\n")
  foreach(tier avx2 avx512 avx512_vnni avx512_bf16)
    string(TOUPPER INGOT_${tier}_FLAGS flags)
    if(name MATCHES "^cpu/simd/.*_${tier}\\.h$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${${flags}}")
    endif()
  endforeach()
  list(APPEND sources ${source})
endforeach()
add_library(headers OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(headers PRIVATE ingot_options fmt::fmt nlohmann_json::nlohmann_json)
