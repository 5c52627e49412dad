#pragma once

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// The recursive-descent parser; private to jinja_parser.cpp (statements) and
// jinja_parser_expr.cpp (expressions). The grammar and its quirks are those of jinja2 3.1's parser.
namespace ingot::jinja {

class Parser {
 public:
  Parser(Program& program, std::vector<Token> tokens)
      : program_(program), tokens_(std::move(tokens)) {}
  void run();

 private:
  // Bounds recursion: deeper nesting than this is refused.
  static constexpr int kMaxNesting = 100;
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.fail("nested too deep");
    }
    ~Nesting() { --parser_.nesting_; }

   private:
    Parser& parser_;
  };

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_identifier();
  void expect(TokenKind kind, std::string_view what);
  [[noreturn]] void fail(std::string message) const;
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;

  // Nodes.
  Expr* make(ExprKind kind, std::size_t offset);
  Statement* make(StatementKind kind, std::size_t offset);
  int intern(const std::string& name);

  // Statements.
  using Ends = std::initializer_list<std::string_view>;
  Block parse_until(Ends ends);  // stands on the end tag's name afterwards
  Block parse_body(Ends ends);   // after the tag's words: block end, then parse_until
  const Statement* parse_statement();
  const Statement* parse_if();
  const Statement* parse_for();
  const Statement* parse_set();
  const Statement* parse_macro();
  const Statement* parse_call_block();
  const Statement* parse_filter_block();
  const Statement* parse_with();
  const Statement* parse_generation();
  const Statement* parse_block();
  const Statement* parse_autoescape();
  const Statement* parse_loop_control(StatementKind kind);
  Block parse_function_body(Signature& signature, std::string_view end);
  void parse_signature(Signature& signature);
  Target parse_target(bool allow_namespace, std::string_view end_word);
  Target parse_single_target(bool allow_namespace);

  // Expressions.
  const Expr* parse_tuple(bool conditional, std::string_view end_word, bool parenthesised = false);
  const Expr* parse_expression(bool conditional = true);
  const Expr* parse_condition();
  const Expr* parse_or();
  const Expr* parse_and();
  const Expr* parse_not();
  const Expr* parse_compare();
  const Expr* parse_sum();
  const Expr* parse_concat();
  const Expr* parse_product();
  const Expr* parse_power();
  const Expr* parse_unary(bool with_filters = true);
  const Expr* parse_primary();
  const Expr* parse_name();
  const Expr* parse_number();
  const Expr* parse_list();
  const Expr* parse_dict();
  const Expr* parse_postfix(const Expr* node);
  const Expr* parse_filters_and_tests(const Expr* node);
  const Expr* parse_subscript(const Expr* node);
  const Expr* parse_index();
  const Expr* parse_call(const Expr* node);
  const Expr* parse_filter_chain(const Expr* node, bool first_without_pipe);
  const Expr* parse_test(const Expr* node);
  ArgumentList parse_arguments();
  bool at_tuple_end(std::string_view end_word) const;
  bool starts_test_argument() const;
  const Expr* constant(Value value, std::size_t offset);

  Program& program_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // enclosing for loops of this function
  // Inside if or a conditional expression: unknown filters fail when run, not when read.
  int conditional_ = 0;
  std::vector<SyntaxFailure> unknown_;  // filters and tests outside of these
  std::vector<Signature*> functions_;
  std::unordered_map<std::string, int> interned_;
};

}  // namespace ingot::jinja
