# Device code travels in the binary as text: NVRTC compiles it where it is needed.
file(GLOB device_code CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
  ${CMAKE_CURRENT_SOURCE_DIR}/cuda/device/*.cuh ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels/*.cu)
list(SORT device_code)
set(cuda_sources_inc ${CMAKE_BINARY_DIR}/generated/cuda_sources.inc)
list(TRANSFORM device_code PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE device_code_paths)
add_custom_command(OUTPUT ${cuda_sources_inc}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${cuda_sources_inc} -DROOT=${CMAKE_CURRENT_SOURCE_DIR}
    "-DFILES=${device_code}" -P ${PROJECT_SOURCE_DIR}/cmake/embed_sources.cmake
  DEPENDS ${device_code_paths} ${PROJECT_SOURCE_DIR}/cmake/embed_sources.cmake
  COMMENT "Embedding device code" VERBATIM)
target_sources(ingot_cuda PRIVATE ${cuda_sources_inc})

generate_stems(cuda ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels/*.cu)
target_link_libraries(ingot_cuda PRIVATE ${CMAKE_DL_LIBS})
