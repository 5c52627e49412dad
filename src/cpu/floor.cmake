generate_stems(cpu_kernels ${CMAKE_CURRENT_SOURCE_DIR}/cpu/kernels/*.cpp)

# Instruction sets by file name: only simd/*_<tier>.cpp may contain more than the baseline, and the
# program enters them after asking the processor (scripts/check_isa.py).
set(INGOT_AVX2_FLAGS -mavx2 -mfma -mf16c -mprfchw)
# g++ 12's own headers of AVX-512 read "undefined" vectors; what is written over the vectors of all
# tiers is checked in the others.
set(INGOT_AVX512_FLAGS ${INGOT_AVX2_FLAGS} -mavx512f -mavx512bw -mavx512vl -mavx512dq -Wno-uninitialized)
set(INGOT_AVX512_VNNI_FLAGS ${INGOT_AVX512_FLAGS} -mavx512vnni)
set(INGOT_AVX512_BF16_FLAGS ${INGOT_AVX512_VNNI_FLAGS} -mavx512bf16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  foreach(tier avx2 avx512 avx512_vnni avx512_bf16)
    string(TOUPPER INGOT_${tier}_FLAGS flags)
    file(GLOB tier_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cpu/simd/*_${tier}.cpp)
    set_source_files_properties(${tier_sources} PROPERTIES COMPILE_OPTIONS "${${flags}}")
  endforeach()
endif()
