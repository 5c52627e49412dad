#include "text/jinja_parser_state.h"
#include "text/jinja_registry.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ingot::jinja {

const Expr* Parser::constant(Value value, std::size_t offset) {
  Expr* node = make(ExprKind::kConstant, offset);
  node->value = std::move(value);
  return node;
}

bool Parser::at_tuple_end(std::string_view end_word) const {
  const TokenKind kind = current().kind;
  return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd ||
         kind == TokenKind::kEnd || is_operator(")") || (!end_word.empty() && is_name(end_word));
}

// Expressions separated by commas make a tuple. `end_word` is a name that ends it ("recursive").
const Expr* Parser::parse_tuple(bool conditional, std::string_view end_word, bool parenthesised) {
  const std::size_t offset = current().offset;
  std::vector<const Expr*> items;
  bool tuple = false;
  for (;;) {
    if (at_tuple_end(end_word)) break;
    items.push_back(parse_expression(conditional));
    if (!skip_operator(",")) break;
    tuple = true;
  }
  if (!tuple && !items.empty()) return items.front();
  if (items.empty() && !parenthesised) fail_unexpected("an expression");
  Expr* node = make(ExprKind::kTuple, offset);
  node->children = std::move(items);
  return node;
}

const Expr* Parser::parse_expression(bool conditional) {
  const Nesting nesting(*this);
  return conditional ? parse_condition() : parse_or();
}

const Expr* Parser::parse_condition() {
  const std::size_t offset = current().offset;
  const std::size_t unknown = unknown_.size();
  const Expr* node = parse_or();
  while (skip_name("if")) {
    unknown_.resize(std::min(unknown, unknown_.size()));  // what was read may never run
    ++conditional_;
    Expr* condition = make(ExprKind::kCondition, offset);
    const Expr* test = parse_or();
    const Expr* otherwise = skip_name("else") ? parse_expression() : nullptr;
    condition->children = {test, node, otherwise};
    node = condition;
    --conditional_;
  }
  return node;
}

const Expr* Parser::parse_or() {
  const std::size_t offset = current().offset;
  const Expr* first = parse_and();
  if (!is_name("or")) return first;
  Expr* node = make(ExprKind::kOr, offset);
  node->children.push_back(first);
  while (skip_name("or")) node->children.push_back(parse_and());
  return node;
}

const Expr* Parser::parse_and() {
  const std::size_t offset = current().offset;
  const Expr* first = parse_not();
  if (!is_name("and")) return first;
  Expr* node = make(ExprKind::kAnd, offset);
  node->children.push_back(first);
  while (skip_name("and")) node->children.push_back(parse_not());
  return node;
}

const Expr* Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  Expr* node = make(ExprKind::kNot, current().offset);
  advance();
  node->children.push_back(parse_not());
  return node;
}

const Expr* Parser::parse_compare() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  const std::size_t offset = current().offset;
  const Expr* first = parse_sum();
  Expr* node = nullptr;
  for (;;) {
    std::optional<Operator> found;
    for (const auto& [text, op] : kOperators)
      if (is_operator(text)) found = op;
    if (is_name("in")) found = Operator::kIn;
    if (is_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
      advance();
      found = Operator::kNotIn;
    }
    if (!found) return node ? node : first;
    advance();
    if (!node) {
      node = make(ExprKind::kCompare, offset);
      node->children.push_back(first);
    }
    node->operators.push_back(*found);
    node->children.push_back(parse_sum());
  }
}

const Expr* Parser::parse_sum() {
  const std::size_t offset = current().offset;
  const Expr* first = parse_concat();
  Expr* node = nullptr;
  while (is_operator("+") || is_operator("-")) {
    if (!node) {
      node = make(ExprKind::kSum, offset);
      node->children.push_back(first);
    }
    node->operators.push_back(is_operator("+") ? Operator::kAdd : Operator::kSubtract);
    advance();
    node->children.push_back(parse_concat());
  }
  return node ? node : first;
}

const Expr* Parser::parse_concat() {
  const std::size_t offset = current().offset;
  const Expr* first = parse_product();
  if (!is_operator("~")) return first;
  Expr* node = make(ExprKind::kConcat, offset);
  node->children.push_back(first);
  while (skip_operator("~")) node->children.push_back(parse_product());
  return node;
}

const Expr* Parser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::kMultiply},
      {"/", Operator::kDivide},
      {"//", Operator::kFloorDivide},
      {"%", Operator::kModulo}};
  const Expr* left = parse_power();
  for (;;) {
    std::optional<Operator> found;
    for (const auto& [text, op] : kOperators)
      if (is_operator(text)) found = op;
    if (!found) return left;
    Expr* node = make(ExprKind::kProduct, current().offset);
    advance();
    node->operators = {*found};
    node->children = {left, parse_power()};
    left = node;
  }
}

const Expr* Parser::parse_power() {
  const Expr* left = parse_unary();
  while (is_operator("**")) {
    Expr* node = make(ExprKind::kProduct, current().offset);
    advance();
    node->operators = {Operator::kPower};
    node->children = {left, parse_unary()};
    left = node;
  }
  return left;
}

const Expr* Parser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  const Expr* node = nullptr;
  if (is_operator("-") || is_operator("+")) {
    Expr* unary =
        make(is_operator("-") ? ExprKind::kNegative : ExprKind::kPositive, current().offset);
    advance();
    unary->children.push_back(parse_unary(false));
    node = unary;
  } else {
    node = parse_primary();
  }
  node = parse_postfix(node);
  return with_filters ? parse_filters_and_tests(node) : node;
}

const Expr* Parser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    case TokenKind::kString: {
      const std::size_t offset = token.offset;
      std::string text;
      for (; current().kind == TokenKind::kString; advance()) text += current().text;
      return constant(TextPtr(std::make_shared<const Text>(std::move(text), std::vector<Span>{},
                                                           false, nullptr)),
                      offset);
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    const Expr* node = parse_tuple(true, {}, true);
    expect_operator(")");
    return node;
  }
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  fail_unexpected("an expression");
}

const Expr* Parser::parse_name() {
  const std::size_t offset = current().offset;
  const std::string word = expect_identifier();
  if (word == "true" || word == "True") return constant(true, offset);
  if (word == "false" || word == "False") return constant(false, offset);
  if (word == "none" || word == "None") return constant(None{}, offset);
  for (Signature* function : functions_) {
    if (word == "varargs") function->uses_varargs = true;
    if (word == "kwargs") function->uses_kwargs = true;
    if (word == "caller") function->uses_caller = true;
  }
  Expr* node = make(ExprKind::kName, offset);
  node->name = intern(word);
  node->text = word;
  return node;
}

const Expr* Parser::parse_number() {
  const Token& token = current();
  std::string_view text = token.text;
  const std::size_t offset = token.offset;
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    advance();
    return constant(value, offset);
  }
  int base = 10;
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    if (base != 10) text.remove_prefix(2);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) fail("an integer out of range");
  advance();
  return constant(value, offset);
}

const Expr* Parser::parse_list() {
  Expr* node = make(ExprKind::kList, current().offset);
  expect_operator("[");
  while (!is_operator("]")) {
    node->children.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("]");
  return node;
}

const Expr* Parser::parse_dict() {
  Expr* node = make(ExprKind::kDict, current().offset);
  expect_operator("{");
  while (!is_operator("}")) {
    node->children.push_back(parse_expression());
    expect_operator(":");
    node->children.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return node;
}

const Expr* Parser::parse_postfix(const Expr* node) {
  for (;;) {
    if (is_operator(".") || is_operator("[")) {
      node = parse_subscript(node);
    } else if (is_operator("(")) {
      node = parse_call(node);
    } else {
      return node;
    }
  }
}

const Expr* Parser::parse_filters_and_tests(const Expr* node) {
  for (;;) {
    if (is_operator("|")) {
      node = parse_filter_chain(node, false);
    } else if (is_name("is")) {
      node = parse_test(node);
    } else if (is_operator("(")) {
      node = parse_call(node);
    } else {
      return node;
    }
  }
}

const Expr* Parser::parse_subscript(const Expr* node) {
  const std::size_t offset = current().offset;
  if (skip_operator(".")) {
    if (current().kind == TokenKind::kInteger) {
      Expr* item = make(ExprKind::kItem, offset);
      item->children = {node, parse_number()};
      return item;
    }
    Expr* attribute = make(ExprKind::kAttribute, offset);
    attribute->text = expect_identifier();
    attribute->children = {node};
    return attribute;
  }
  expect_operator("[");
  std::vector<const Expr*> indices;
  while (!is_operator("]")) {
    if (!indices.empty()) expect_operator(",");
    indices.push_back(parse_index());
  }
  if (indices.empty()) fail_unexpected("an index");
  expect_operator("]");
  Expr* item = make(ExprKind::kItem, offset);
  const Expr* index = indices.front();
  if (indices.size() > 1) {
    Expr* tuple = make(ExprKind::kTuple, offset);
    for (const Expr* i : indices)
      if (i->kind == ExprKind::kSlice) fail("slices in several dimensions are not supported");
    tuple->children = std::move(indices);
    index = tuple;
  }
  item->children = {node, index};
  return item;
}

const Expr* Parser::parse_index() {
  const std::size_t offset = current().offset;
  const Expr* start = is_operator(":") ? nullptr : parse_expression();
  if (!is_operator(":")) return start;
  Expr* slice = make(ExprKind::kSlice, offset);
  slice->children = {start, nullptr, nullptr};
  for (std::size_t part = 1; part <= 2 && skip_operator(":"); ++part)
    if (!is_operator(":") && !is_operator("]") && !is_operator(","))
      slice->children[part] = parse_expression();
  return slice;
}

ArgumentList Parser::parse_arguments() {
  ArgumentList list;
  expect_operator("(");
  while (!is_operator(")")) {
    if (skip_operator("*")) {
      if (list.spread || list.spread_named) fail("a second *arguments");
      list.spread = parse_expression();
    } else if (skip_operator("**")) {
      if (list.spread_named) fail("a second **arguments");
      list.spread_named = parse_expression();
    } else if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator &&
               ahead().text == "=") {
      if (list.spread_named) fail("a named argument after **arguments");
      std::string name = expect_identifier();
      advance();
      list.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (list.spread || list.spread_named || !list.named.empty())
        fail("a positional argument after a named one");
      list.positional.push_back(parse_expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
  return list;
}

const Expr* Parser::parse_call(const Expr* node) {
  Expr* call = make(ExprKind::kCall, current().offset);
  call->children = {node};
  call->arguments = parse_arguments();
  return call;
}

const Expr* Parser::parse_filter_chain(const Expr* node, bool first_without_pipe) {
  while (first_without_pipe || is_operator("|")) {
    if (!first_without_pipe) advance();
    first_without_pipe = false;
    Expr* filter = make(ExprKind::kFilter, current().offset);
    filter->text = expect_identifier();
    if (conditional_ == 0 && !find_filter(filter->text))
      unknown_.push_back({fmt::format("unknown filter '{}'", filter->text), filter->offset});
    filter->children = {node};
    if (is_operator("(")) filter->arguments = parse_arguments();
    node = filter;
  }
  return node;
}

bool Parser::starts_test_argument() const {
  switch (current().kind) {
    case TokenKind::kName:
      return !is_name("else") && !is_name("or") && !is_name("and");
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    default:
      return is_operator("[") || is_operator("{");
  }
}

const Expr* Parser::parse_test(const Expr* node) {
  const std::size_t offset = current().offset;
  advance();  // is
  const bool negated = skip_name("not");
  Expr* test = make(ExprKind::kTest, current().offset);
  test->text = expect_identifier();
  if (conditional_ == 0 && !find_test(test->text))
    unknown_.push_back({fmt::format("unknown test '{}'", test->text), test->offset});
  test->children = {node};
  if (is_operator("(")) {
    test->arguments = parse_arguments();
  } else if (starts_test_argument()) {
    if (is_name("is")) fail("tests cannot be chained with 'is'");
    test->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  if (!negated) return test;
  Expr* inverse = make(ExprKind::kNot, offset);
  inverse->children = {test};
  return inverse;
}

}  // namespace ingot::jinja
