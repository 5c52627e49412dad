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
foreach(name compiled_grammar config earley_parser fsm fsm_builder grammar grammar_builder
    grammar_functor grammar_parser grammar_printer suffix_automata testing support/recursion_guard)
  list(APPEND xgrammar_sources ${xgrammar_dir}/cpp/${name}.cc)
endforeach()

# A file that is mended on the way: pairs of what stands there and what is to stand there, without ; and [.
set(xgrammar_not_known "is not that of xgrammar ${XGRAMMAR_VERSION}. scripts/fetch_xgrammar brings the right one.")
function(add_mended_xgrammar_source name)
  file(READ ${xgrammar_dir}/cpp/${name}.cc text)
  while(ARGN)
    list(POP_FRONT ARGN wrong right)
    string(FIND "${text}" "${wrong}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "${xgrammar_dir}/cpp/${name}.cc ${xgrammar_not_known}")
    endif()
    string(REPLACE "${wrong}" "${right}" text "${text}")
  endwhile()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/xgrammar/${name}.cc CONTENT "${text}" @ONLY)
  set(xgrammar_sources ${xgrammar_sources} ${CMAKE_BINARY_DIR}/generated/xgrammar/${name}.cc PARENT_SCOPE)
endfunction()

# A mistake: which tokens begin with which other is asked with find() where starts-with is meant, so masks lack tokens
# of vocabularies where one token holds another further on.
add_mended_xgrammar_source(tokenizer_info
  "token.find(prefix_stack.top().first) == std::string::npos"
  "token.compare(0, prefix_stack.top().first.size(), prefix_stack.top().first) != 0")
# Hostile grammars: work on masks knows no end of its own (third_party/xgrammar/watch.h).
add_mended_xgrammar_source(grammar_compiler
  "#include \"earley_parser.h\"" "#include \"earley_parser.h\"\n#include <watch.h>"
  "if (!Advance(" "if (NoteMaskMaking(), !Advance(")
add_mended_xgrammar_source(grammar_matcher
  "#include \"earley_parser.h\"" "#include \"earley_parser.h\"\n#include <watch.h>"
  "bool byte_accepted = has_char_budget_rules_" "bool byte_accepted = (NoteMatching(), has_char_budget_rules_)")

add_library(xgrammar STATIC ${xgrammar_sources})
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
  XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_include_directories(xgrammar SYSTEM PUBLIC ${PROJECT_SOURCE_DIR}/third_party/xgrammar
  ${xgrammar_dir}/include ${xgrammar_dir}/cpp
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
