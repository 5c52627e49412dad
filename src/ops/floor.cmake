# An op is a file of this folder; ops/reference/ holds what they share.
generate_stems(ops ${CMAKE_CURRENT_SOURCE_DIR}/ops/*.cpp)
