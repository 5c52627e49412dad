#include "text/jinja_parser.h"

#include "base/error.h"
#include "text/jinja_parser_state.h"

#include <algorithm>

namespace ingot::jinja {

std::shared_ptr<const Program> parse_program(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes)
    ingot::fail(ErrorCode::kBadInput, "[jinja.parse] a template of {} bytes, at most {} are read",
                source.size(), limits.max_source_bytes);
  auto program = std::make_shared<Program>();
  program->source = normalise_source(source);
  try {
    Parser(*program, tokenize(program->source)).run();
  } catch (const SyntaxFailure& failure) {
    const Position p = position_of(program->source, failure.offset);
    ingot::fail(ErrorCode::kBadInput, "[jinja.parse] line {} column {}: {}", p.line, p.column,
                failure.message);
  }
  return program;
}

void Parser::fail(std::string message) const {
  throw SyntaxFailure{std::move(message), current().offset};
}

void Parser::fail_unexpected(std::string_view wanted) const {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kEnd:
      fail(fmt::format("unexpected end of template, wanted {}", wanted));
    case TokenKind::kBlockEnd:
      fail(fmt::format("unexpected '%}}', wanted {}", wanted));
    case TokenKind::kVariableEnd:
      fail(fmt::format("unexpected '}}}}', wanted {}", wanted));
    default:
      fail(fmt::format("unexpected '{}', wanted {}", token.text, wanted));
  }
}

bool Parser::is_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool Parser::is_name(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}

bool Parser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  advance();
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_unexpected(fmt::format("'{}'", text));
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_unexpected(fmt::format("'{}'", text));
}

std::string Parser::expect_identifier() {
  if (current().kind != TokenKind::kName) fail_unexpected("a name");
  std::string name = current().text;
  advance();
  return name;
}

void Parser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) fail_unexpected(what);
  advance();
}

Expr* Parser::make(ExprKind kind, std::size_t offset) {
  Expr& node = program_.expressions.emplace_back();
  node.kind = kind;
  node.offset = offset;
  return &node;
}

Statement* Parser::make(StatementKind kind, std::size_t offset) {
  Statement& node = program_.statements.emplace_back();
  node.kind = kind;
  node.offset = offset;
  return &node;
}

int Parser::intern(const std::string& name) {
  const auto [at, added] = interned_.emplace(name, static_cast<int>(program_.names.size()));
  if (added) program_.names.push_back(name);
  return at->second;
}

void Parser::run() {
  program_.body = parse_until({});
  if (current().kind != TokenKind::kEnd) fail_unexpected("the end");
  if (!unknown_.empty()) throw unknown_.front();
}

Block Parser::parse_until(Ends ends) {
  Block block;
  for (;;) {
    const Token& token = current();
    switch (token.kind) {
      case TokenKind::kEnd: {
        if (ends.size() == 0) return block;
        fail(fmt::format("unexpected end of template, '{}' is missing", *(ends.end() - 1)));
      }
      case TokenKind::kData: {
        Statement* data = make(StatementKind::kData, token.offset);
        data->text = std::make_shared<const Text>(token.text, std::vector<Span>{}, false, nullptr);
        block.push_back(data);
        advance();
        break;
      }
      case TokenKind::kVariableBegin: {
        Statement* output = make(StatementKind::kOutput, token.offset);
        advance();
        output->value = parse_tuple(true, {});
        expect(TokenKind::kVariableEnd, "'}}'");
        block.push_back(output);
        break;
      }
      default: {
        expect(TokenKind::kBlockBegin, "a tag");
        if (current().kind == TokenKind::kName &&
            std::find(ends.begin(), ends.end(), current().text) != ends.end())
          return block;
        block.push_back(parse_statement());
        expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
  }
}

Block Parser::parse_body(Ends ends) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd, "'%}'");
  return parse_until(ends);
}

const Statement* Parser::parse_statement() {
  const Nesting nesting(*this);
  if (current().kind != TokenKind::kName) fail_unexpected("the name of a statement");
  const std::string& word = current().text;
  if (word == "if") return parse_if();
  if (word == "for") return parse_for();
  if (word == "set") return parse_set();
  if (word == "macro") return parse_macro();
  if (word == "call") return parse_call_block();
  if (word == "filter") return parse_filter_block();
  if (word == "with") return parse_with();
  if (word == "generation") return parse_generation();
  if (word == "block") return parse_block();
  if (word == "autoescape") return parse_autoescape();
  if (word == "break") return parse_loop_control(StatementKind::kBreak);
  if (word == "continue") return parse_loop_control(StatementKind::kContinue);
  fail(fmt::format("unknown statement '{}'", word));
}

const Statement* Parser::parse_if() {
  Statement* node = make(StatementKind::kIf, current().offset);
  ++conditional_;
  for (;;) {
    advance();  // if, elif
    const Expr* test = parse_tuple(false, {});
    node->branches.emplace_back(test, parse_body({"elif", "else", "endif"}));
    if (is_name("elif")) continue;
    if (skip_name("else")) node->branches.emplace_back(nullptr, parse_body({"endif"}));
    expect_name("endif");
    break;
  }
  --conditional_;
  return node;
}

const Statement* Parser::parse_for() {
  Statement* node = make(StatementKind::kFor, current().offset);
  advance();
  node->target = parse_target(false, "in");
  expect_name("in");
  node->value = parse_tuple(false, "recursive");
  if (skip_name("if")) node->test = parse_expression();
  node->recursive = skip_name("recursive");
  ++loops_;
  node->body = parse_body({"else", "endfor"});
  --loops_;
  if (skip_name("else")) node->otherwise = parse_body({"endfor"});
  expect_name("endfor");
  return node;
}

const Statement* Parser::parse_set() {
  const std::size_t offset = current().offset;
  advance();
  Target target = parse_target(true, {});
  const bool block = !skip_operator("=");
  Statement* node = make(block ? StatementKind::kSetBlock : StatementKind::kSet, offset);
  node->target = std::move(target);
  if (!block) {
    node->value = parse_tuple(true, {});
    return node;
  }
  if (is_operator("|")) node->value = parse_filter_chain(nullptr, false);
  node->body = parse_body({"endset"});
  expect_name("endset");
  return node;
}

// The body of a macro or call: no loop outside can be left from it.
Block Parser::parse_function_body(Signature& signature, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  functions_.push_back(&signature);
  Block body = parse_body({end});
  functions_.pop_back();
  loops_ = loops;
  expect_name(end);
  return body;
}

const Statement* Parser::parse_macro() {
  Statement* node = make(StatementKind::kMacro, current().offset);
  advance();
  node->signature.name = intern(expect_identifier());
  parse_signature(node->signature);
  node->body = parse_function_body(node->signature, "endmacro");
  return node;
}

void Parser::parse_signature(Signature& signature) {
  expect_operator("(");
  while (!is_operator(")")) {
    if (!signature.parameters.empty()) expect_operator(",");
    signature.parameters.push_back(intern(expect_identifier()));
    if (skip_operator("=")) {
      signature.defaults.push_back(parse_expression());
    } else if (!signature.defaults.empty()) {
      fail("a parameter without default follows one with a default");
    }
  }
  expect_operator(")");
}

const Statement* Parser::parse_call_block() {
  Statement* node = make(StatementKind::kCall, current().offset);
  advance();
  node->signature.name = intern("caller");
  if (is_operator("(")) parse_signature(node->signature);
  node->value = parse_expression();
  if (node->value->kind != ExprKind::kCall) fail("'call' wants a call");
  node->body = parse_function_body(node->signature, "endcall");
  return node;
}

const Statement* Parser::parse_filter_block() {
  Statement* node = make(StatementKind::kFilterBlock, current().offset);
  advance();
  node->value = parse_filter_chain(nullptr, true);
  node->body = parse_body({"endfilter"});
  expect_name("endfilter");
  return node;
}

const Statement* Parser::parse_with() {
  Statement* node = make(StatementKind::kWith, current().offset);
  advance();
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node->assignments.empty()) expect_operator(",");
    Target target = parse_target(false, {});
    expect_operator("=");
    node->assignments.emplace_back(std::move(target), parse_expression());
  }
  node->body = parse_body({"endwith"});
  expect_name("endwith");
  return node;
}

const Statement* Parser::parse_generation() {
  Statement* node = make(StatementKind::kInnerBlock, current().offset);
  advance();
  node->body = parse_function_body(node->signature, "endgeneration");
  return node;
}

// There is no inheritance here: a block shows its body.
const Statement* Parser::parse_block() {
  Statement* node = make(StatementKind::kInnerBlock, current().offset);
  advance();
  const std::string name = expect_identifier();
  skip_name("scoped");
  const int loops = std::exchange(loops_, 0);
  node->body = parse_body({"endblock"});
  loops_ = loops;
  expect_name("endblock");
  skip_name(name);
  return node;
}

const Statement* Parser::parse_autoescape() {
  Statement* node = make(StatementKind::kInnerBlock, current().offset);
  advance();
  if (!is_name("false") && !is_name("False")) fail("only 'autoescape false' is supported");
  advance();
  node->body = parse_body({"endautoescape"});
  expect_name("endautoescape");
  return node;
}

const Statement* Parser::parse_loop_control(StatementKind kind) {
  if (loops_ == 0) fail(fmt::format("'{}' outside a loop", current().text));
  Statement* node = make(kind, current().offset);
  advance();
  return node;
}

Target Parser::parse_single_target(bool allow_namespace) {
  const Nesting nesting(*this);
  Target target;
  target.offset = current().offset;
  if (skip_operator("(")) {
    target = parse_target(allow_namespace, {});
    expect_operator(")");
    return target;
  }
  static constexpr std::string_view kConstants[] = {"true",  "false", "True",
                                                    "False", "none",  "None"};
  for (const auto word : kConstants)
    if (is_name(word)) fail(fmt::format("cannot assign to '{}'", word));
  target.name = intern(expect_identifier());
  if (allow_namespace && skip_operator(".")) target.attribute = expect_identifier();
  return target;
}

Target Parser::parse_target(bool allow_namespace, std::string_view end_word) {
  std::vector<Target> parts;
  const std::size_t offset = current().offset;
  bool tuple = false;
  for (;;) {
    if (tuple && (at_tuple_end(end_word) || is_operator("="))) break;
    parts.push_back(parse_single_target(allow_namespace));
    if (!skip_operator(",")) break;
    tuple = true;
  }
  if (!tuple) return std::move(parts.front());
  Target target;
  target.offset = offset;
  target.is_tuple = true;
  target.parts = std::move(parts);
  return target;
}

}  // namespace ingot::jinja
