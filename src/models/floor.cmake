generate_stems(models ${CMAKE_CURRENT_SOURCE_DIR}/models/*.cpp)
