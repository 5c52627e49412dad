#pragma once

#include "text/jinja_value.h"

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

// The parsed template. Nodes live in the Program's pools, so that no destructor recurses.
namespace ingot::jinja {

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

enum class ExprKind {
  kConstant,   // value
  kName,       // name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value, ...
  kSum,        // children joined by operators (+ and - only; n-ary, so that long sums do not nest)
  kProduct,    // two children, operators[0] (one of * / // % **)
  kConcat,     // children (~)
  kNegative,   // children[0]
  kPositive,   // children[0]
  kNot,        // children[0]
  kAnd,        // children
  kOr,         // children
  kCompare,    // children[0], then one child for each of operators
  kCondition,  // children: test, then, otherwise (may be null)
  kAttribute,  // children[0] . text
  kItem,       // children[0] [ children[1] ]
  kSlice,      // children: start, stop, step (each may be null); only as an index
  kCall,       // children[0] ( arguments )
  kFilter,     // children[0] | text ( arguments ); children[0] is null in filter blocks
  kTest,       // children[0] is text ( arguments )
};

struct Expr;

// Of calls, filters and tests.
struct ArgumentList {
  std::vector<const Expr*> positional;
  std::vector<std::pair<std::string, const Expr*>> named;
  const Expr* spread = nullptr;        // *args
  const Expr* spread_named = nullptr;  // **kwargs
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  std::size_t offset = 0;  // in the normalised source
  std::vector<const Expr*> children;
  std::vector<Operator> operators;
  ArgumentList arguments;
  std::string text;  // of an attribute, filter, test, name
  int name = -1;     // index into Program::names
  Value value;       // constants only: bool, number, string, none
};

// What is assigned to: a name, a tuple of targets, or an attribute of a namespace.
struct Target {
  std::size_t offset = 0;
  int name = -1;
  std::string attribute;      // not empty: names[name].attribute
  std::vector<Target> parts;  // not empty or `is_tuple`: unpacking
  bool is_tuple = false;
};

enum class StatementKind {
  kData,         // text
  kOutput,       // value
  kIf,           // branches
  kFor,          // target, value (what is iterated), test, body, otherwise, recursive
  kSet,          // target, value
  kSetBlock,     // target, value (filters or null), body
  kMacro,        // signature, body
  kCall,         // value (the call), signature of the caller, body
  kFilterBlock,  // value (filters), body
  kWith,         // assignments, body
  kInnerBlock,   // body, in a scope of its own (generation, block, autoescape false)
  kBreak,
  kContinue,
};

struct Statement;
using Block = std::vector<const Statement*>;

struct Signature {
  int name = -1;
  std::vector<int> parameters;
  std::vector<const Expr*> defaults;  // of the last defaults.size() parameters
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Statement {
  StatementKind kind = StatementKind::kData;
  std::size_t offset = 0;
  TextPtr text;
  Target target;
  const Expr* value = nullptr;
  const Expr* test = nullptr;
  bool recursive = false;
  Block body;
  Block otherwise;
  std::vector<std::pair<const Expr*, Block>> branches;  // of if; a null test is else
  std::vector<std::pair<Target, const Expr*>> assignments;
  Signature signature;
};

struct Program {
  std::string source;  // normalised: offsets refer to it
  std::vector<std::string> names;
  std::deque<Expr> expressions;
  std::deque<Statement> statements;
  Block body;

  // Index of a name that occurs in the template, else -1.
  int find_name(std::string_view name) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) return static_cast<int>(i);
    return -1;
  }
};

}  // namespace ingot::jinja
