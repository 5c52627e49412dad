generate_stems(quant ${CMAKE_CURRENT_SOURCE_DIR}/quant/*.cpp)
