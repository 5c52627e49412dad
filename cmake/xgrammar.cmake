# Target `xgrammar`: the C++ core of xgrammar, from the sources that scripts/deps puts into the cache. Only what turns
# a grammar in EBNF into token masks is compiled: descriptions are turned into EBNF by src/grammar, so the converters of
# schemas, Lark and structural tags stay out (third_party/xgrammar/left_out.cc stands in for them).
set(XGRAMMAR_VERSION 0.2.9)
set(INGOT_XGRAMMAR_DIR "" CACHE PATH "Sources of xgrammar ${XGRAMMAR_VERSION}; empty: where scripts/deps puts them")

set(xgrammar_dir ${INGOT_XGRAMMAR_DIR})
if(NOT xgrammar_dir)
  set(cache $ENV{INGOT_CACHE})
  if(NOT cache)
    set(cache $ENV{HOME}/.cache/ingot)
  endif()
  set(xgrammar_dir ${cache}/xgrammar-${XGRAMMAR_VERSION})
endif()
if(NOT EXISTS ${xgrammar_dir}/include/xgrammar/xgrammar.h)
  message(FATAL_ERROR "The sources of xgrammar ${XGRAMMAR_VERSION} are not in ${xgrammar_dir}. "
    "scripts/deps brings them; -DINGOT_XGRAMMAR_DIR=FOLDER names another place; "
    "-DINGOT_GRAMMAR=OFF builds without structured output.")
endif()

set(xgrammar_sources ${PROJECT_SOURCE_DIR}/third_party/xgrammar/left_out.cc)
foreach(name compiled_grammar config earley_parser fsm fsm_builder grammar grammar_builder grammar_compiler
    grammar_functor grammar_matcher grammar_parser grammar_printer suffix_automata testing support/recursion_guard)
  list(APPEND xgrammar_sources ${xgrammar_dir}/cpp/${name}.cc)
endforeach()

# One mistake is mended on the way: which tokens begin with which other is asked with find() where starts-with is
# meant, so masks lack tokens of vocabularies where one token holds another further on.
file(READ ${xgrammar_dir}/cpp/tokenizer_info.cc text)
set(wrong "token.find(prefix_stack.top().first) == std::string::npos")
set(right "token.compare(0, prefix_stack.top().first.size(), prefix_stack.top().first) != 0")
string(FIND "${text}" "${wrong}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${xgrammar_dir}/cpp/tokenizer_info.cc is not that of xgrammar ${XGRAMMAR_VERSION}. "
    "scripts/fetch_xgrammar brings the right one.")
endif()
string(REPLACE "${wrong}" "${right}" text "${text}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/xgrammar/tokenizer_info.cc CONTENT "${text}" @ONLY)
list(APPEND xgrammar_sources ${CMAKE_BINARY_DIR}/generated/xgrammar/tokenizer_info.cc)

add_library(xgrammar STATIC ${xgrammar_sources})
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
  XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_include_directories(xgrammar SYSTEM PUBLIC ${xgrammar_dir}/include ${xgrammar_dir}/cpp
  ${xgrammar_dir}/3rdparty/picojson ${xgrammar_dir}/3rdparty/dlpack/include)
target_compile_options(xgrammar PRIVATE -w -ffile-prefix-map=${xgrammar_dir}/=xgrammar/)
set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17)
if(INGOT_SANITIZE)
  # Memory and threads; what is undefined in others' arithmetic is not ours to mend.
  target_compile_options(xgrammar PRIVATE -fsanitize=${INGOT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -fno-sanitize=undefined)
endif()
if(INGOT_FUZZ)
  target_compile_options(xgrammar PRIVATE -fsanitize=fuzzer-no-link)
endif()
