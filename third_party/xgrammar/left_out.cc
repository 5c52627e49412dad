// Ingot's own: xgrammar's readers of schemas, patterns, Lark and structural tags are not compiled in
// (cmake/xgrammar.cmake), since src/grammar reads descriptions itself. xgrammar's Grammar names them
// in functions that nothing calls.
#include <json_schema_converter.h>
#include <lark_converter.h>
#include <regex_converter.h>
#include <structural_tag.h>
#include <support/logging.h>

#include <string>

namespace xgrammar {

namespace {

[[noreturn]] void left_out(const std::string& what) {
  LogFatalImpl("", 0, what + " is not part of this build of xgrammar");
}

}  // namespace

Grammar JSONSchemaToGrammar(const std::string&, bool, std::optional<int>,
                            std::optional<std::pair<std::string, std::string>>, bool,
                            std::optional<int>, bool, JSONFormat, std::vector<std::string>) {
  left_out("JSON Schema");
}

Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&,
                      const std::vector<NamedGrammar>&) {
  left_out("Lark");
}

std::string RegexToEBNF(const std::string&, bool) {
  left_out("the reader of patterns");
}

Result<Grammar, StructuralTagError> StructuralTagToGrammar(const std::string&,
                                                           const std::optional<TokenizerInfo>&) {
  left_out("structural tags");
}

}  // namespace xgrammar
