#include "base/error.h"
#include "ir/graph.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

namespace ingot {

namespace {

// Limits of a text that may come from anywhere (an engine file).
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxNodes = 1'000'000;
constexpr std::size_t kMaxList = 4096;     // operands, results, recipe parts, attributes
constexpr std::size_t kMaxText = 1 << 20;  // one name or string
constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

// Position in the text, and tokens at it. A statement ends with its line, so blanks are not lines.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  std::size_t position() const { return at_; }

  template <typename... Args>
  [[noreturn]] void bad_at(std::size_t position, fmt::format_string<Args...> format,
                           Args&&... args) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n');
    const std::size_t column = position - (start == std::string_view::npos ? 0 : start + 1) + 1;
    throw Error(ErrorCode::kBadInput,
                fmt::format("[ir.parse] line {}, column {}: {}", line, column,
                            fmt::format(format, std::forward<Args>(args)...)));
  }
  template <typename... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    bad_at(at_, format, std::forward<Args>(args)...);
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() {
    skip_blanks();
    return at_end() ? '\0' : text_[at_];
  }
  bool accept(char c) {
    if (peek() != c || at_end()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad("wanted '{}', got {}", c, here());
  }
  void expect(std::string_view symbol) {
    for (const char c : symbol) expect(c);
  }

  void skip_lines() {
    while (peek() == '\n' && !at_end()) ++at_;
  }
  void end_line() {
    if (peek() != '\n' && !at_end()) bad("wanted the end of the line, got {}", here());
  }

  // Letters, digits and _./-; may be empty.
  std::string_view peek_word() {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  std::string_view word(std::string_view what) {
    const std::string_view w = peek_word();
    if (w.empty()) bad("wanted {}, got {}", what, here());
    at_ += w.size();
    return w;
  }
  bool accept_word(std::string_view w) {
    if (peek_word() != w) return false;
    at_ += w.size();
    return true;
  }
  // As many of the characters as `keep` likes, nothing skipped before.
  template <typename Keep>
  std::string_view run_of(Keep keep) {
    const std::size_t start = at_;
    while (at_ < text_.size() && keep(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  std::string name(std::string_view what) {
    std::string result = peek() == '"' ? quoted() : std::string(word(what));
    if (result.size() > kMaxText) bad("{} of {} bytes", what, result.size());
    return result;
  }

  std::string quoted() {
    const std::size_t start = at_;
    expect('"');
    std::string out;
    for (;;) {
      if (at_end() || text_[at_] == '\n') bad_at(start, "string without end");
      const char c = text_[at_++];
      if (c == '"') return out;
      out += c == '\\' ? escape() : c;
      if (out.size() > kMaxText) bad_at(start, "string longer than {} bytes", kMaxText);
    }
  }

  std::int64_t integer(std::string_view what, std::int64_t low, std::int64_t high) {
    skip_blanks();
    const std::size_t start = at_;
    const std::string_view digits =
        run_of([](char c) { return (c >= '0' && c <= '9') || c == '-'; });
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
      bad_at(start, "wanted {}, got '{}'", what, digits);
    if (value < low || value > high)
      bad_at(start, "{} is {}, wanted {} to {}", what, value, low, high);
    return value;
  }

  std::string here() const {
    if (at_end()) return "the end of the text";
    if (text_[at_] == '\n') return "the end of the line";
    const auto u = static_cast<unsigned char>(text_[at_]);
    return u > 0x20 && u < 0x7f ? fmt::format("'{}'", text_[at_]) : fmt::format("byte {:#04x}", u);
  }

 private:
  void skip_blanks() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    if (!at_end() && text_[at_] == '#')
      while (!at_end() && text_[at_] != '\n') ++at_;
  }

  char escape() {
    const auto hex = [&]() -> unsigned {
      const char c = at_end() ? '\0' : text_[at_++];
      if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
      if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
      bad("wanted two hexadecimal digits after \\x");
    };
    const char c = at_end() ? '\0' : text_[at_++];
    if (c == '"' || c == '\\') return c;
    if (c != 'x') bad("unknown escape in a string, known: \\\" \\\\ \\x00");
    const unsigned high = hex();
    return static_cast<char>(high * 16 + hex());
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

class Parser {
 public:
  Parser(std::string_view text, OpTable ops) : in_(text) {
    for (const OpDef* op : ops) ops_.emplace(op->name, op);
  }

  Graph run() {
    in_.skip_lines();
    header();
    for (in_.skip_lines(); !in_.at_end(); in_.skip_lines()) {
      statement();
      in_.end_line();
      if (graph_.nodes.size() > kMaxNodes) in_.bad("more than {} nodes", kMaxNodes);
    }
    return std::move(graph_);
  }

 private:
  void header() {
    if (!in_.accept_word("graph")) in_.bad("wanted 'graph', got {}", in_.here());
    graph_.name = in_.name("the graph's name");
    in_.expect('(');
    const std::pair<char, Symbol> symbols[] = {{'T', Symbol::kTokens},
                                               {'S', Symbol::kSequences},
                                               {'R', Symbol::kRows},
                                               {'P', Symbol::kPages}};
    for (const auto& [letter, symbol] : symbols) {
      if (letter != 'T') in_.expect(',');
      in_.expect(letter);
      in_.expect("<=");
      graph_.max[symbol] = in_.integer("an upper bound", 0, kMaxDim);
    }
    in_.expect(')');
    in_.end_line();
  }

  void statement() {
    const std::size_t start = in_.position();
    if (in_.accept_word("input")) {
      std::string name = new_name('%', "input");
      in_.expect(':');
      declare(start, graph_.add_input(std::move(name), tensor_type(false)));
    } else if (in_.accept_word("weight")) {
      weight(start);
    } else if (in_.accept_word("state")) {
      std::string name = new_name('$', "state");
      in_.expect(':');
      declare(start, graph_.add_state(std::move(name), state_spec()));
    } else if (in_.accept_word("output")) {
      output();
    } else {
      node();
    }
  }

  std::string new_name(char sigil, std::string_view what) {
    in_.expect(sigil);
    std::string name = in_.name(what);
    if (name.empty()) in_.bad("a name is empty");
    return name;
  }

  void declare(std::size_t position, ValueId id) {
    if (!ids_.emplace(graph_.value(id).name, id).second)
      in_.bad_at(position, "'{}' is already defined", graph_.value(id).name);
  }

  void weight(std::size_t start) {
    std::string name = new_name('@', "weight");
    in_.expect(':');
    ValueType type = tensor_type(true);
    WeightRecipe recipe;
    if (in_.accept_word("from")) {
      in_.expect('[');
      do {
        recipe.parts.push_back(in_.name("a tensor's name"));
        if (recipe.parts.size() > kMaxList) in_.bad("more than {} parts", kMaxList);
      } while (in_.accept(','));
      in_.expect(']');
    }
    if (in_.accept_word("interleave"))
      recipe.interleave = in_.integer("rows to interleave", 1, kMaxDim);
    declare(start, graph_.add_weight(std::move(name), std::move(type), std::move(recipe)));
  }

  void output() {
    do {
      const std::size_t position = in_.position();
      const ValueId id = operand();
      const ValueKind kind = graph_.value(id).kind;
      if (kind != ValueKind::kActivation && kind != ValueKind::kInput)
        in_.bad_at(position, "output '{}' is a weight or state", graph_.value(id).name);
      graph_.outputs.push_back(id);
      if (graph_.outputs.size() > kMaxList) in_.bad("more than {} outputs", kMaxList);
    } while (in_.accept(','));
  }

  // %name, @name or $name, defined before.
  ValueId operand() {
    const char sigil = in_.peek();
    if (sigil != '%' && sigil != '@' && sigil != '$')
      in_.bad("wanted a value (%, @ or $), got {}", in_.here());
    const std::size_t start = in_.position();
    in_.expect(sigil);
    const std::string name = in_.name("a value's name");
    const auto it = ids_.find(name);
    if (it == ids_.end()) in_.bad_at(start, "'{}' is not defined", name);
    const ValueKind kind = graph_.value(it->second).kind;
    const char own = kind == ValueKind::kWeight ? '@' : kind == ValueKind::kState ? '$' : '%';
    if (own != sigil) in_.bad_at(start, "'{}' is written {}{}", name, own, name);
    return it->second;
  }

  void node() {
    const std::size_t start = in_.position();
    std::vector<std::string> names;
    if (in_.peek() == '%') {
      do {
        names.push_back(new_name('%', "a result's name"));
        if (names.size() > kMaxList) in_.bad("more than {} results", kMaxList);
      } while (in_.accept(','));
      in_.expect('=');
    }
    in_.peek();
    const std::size_t op_position = in_.position();
    const std::string_view op_name = in_.word("an op");
    const auto it = ops_.find(op_name);
    if (it == ops_.end()) in_.bad_at(op_position, "unknown op '{}'", op_name);
    std::vector<ValueId> operands;
    bool has_state = false;
    if (const char c = in_.peek(); c == '%' || c == '@' || c == '$') {
      do {
        operands.push_back(operand());
        has_state |= graph_.value(operands.back()).kind == ValueKind::kState;
        if (operands.size() > kMaxList) in_.bad("more than {} operands", kMaxList);
      } while (in_.accept(','));
    }
    if (has_state != (it->second->reads_state || it->second->writes_state))
      in_.bad_at(op_position, "op '{}' {}", op_name,
                 has_state ? "takes no state" : "needs a state operand");
    Attrs attributes = attrs();
    const std::vector<ValueId> results =
        add_node(op_position, *it->second, std::move(attributes), std::move(operands), names);
    for (const ValueId id : results) declare(start, id);
    result_types(results);
  }

  std::vector<ValueId> add_node(std::size_t position, const OpDef& op, Attrs attributes,
                                std::vector<ValueId> operands,
                                const std::vector<std::string>& names) {
    std::vector<ValueType> types;
    for (const ValueId id : operands) types.push_back(graph_.type(id));
    try {  // the count of results is known after inference only
      const std::size_t count = op.infer(attributes, types).size();
      if (count != names.size())
        in_.bad_at(position, "op '{}' has {} results, {} are named", op.name, count, names.size());
      return graph_.add_node(op, std::move(attributes), std::move(operands), names);
    } catch (const Error& e) {
      if (e.message().starts_with("[ir.parse]")) throw;
      in_.bad_at(position, "{}", e.message());
    }
  }

  void result_types(const std::vector<ValueId>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      in_.expect(i == 0 ? ':' : ',');
      in_.peek();
      const std::size_t position = in_.position();
      const ValueType written = tensor_type(false);
      const ValueType& inferred = graph_.type(results[i]);
      if (written != inferred)
        in_.bad_at(position, "'{}' is written as {}, its op makes {}",
                   graph_.value(results[i]).name, to_string(written), to_string(inferred));
    }
  }

  Attrs attrs() {
    Attrs result;
    if (!in_.accept('{')) return result;
    do {
      in_.peek();
      const std::size_t position = in_.position();
      const std::string name(in_.word("an attribute's name"));
      in_.expect('=');
      if (result.find(name)) in_.bad_at(position, "attribute '{}' is given twice", name);
      result.set(name, attr_value());
      if (result.entries().size() > kMaxList) in_.bad("more than {} attributes", kMaxList);
    } while (in_.accept(','));
    in_.expect('}');
    return result;
  }

  AttrValue attr_value() {
    const char c = in_.peek();
    if (c == '"') return in_.quoted();
    if (c == '[') return integers();
    if (in_.accept_word("true")) return true;
    if (in_.accept_word("false")) return false;
    const std::size_t start = in_.position();
    const std::string_view text = in_.run_of([](char d) { return is_word(d) || d == '+'; });
    const char* const end = text.data() + text.size();
    std::int64_t integer = 0;
    if (const auto r = std::from_chars(text.data(), end, integer);
        r.ec == std::errc{} && r.ptr == end)
      return integer;
    double real = 0;
    if (const auto r = std::from_chars(text.data(), end, real); r.ec == std::errc{} && r.ptr == end)
      return real;
    in_.bad_at(start, "wanted true, false, a number, a string or [integers], got '{}'",
               text.substr(0, 40));
  }

  AttrValue integers() {
    std::vector<std::int64_t> values;
    in_.expect('[');
    if (!in_.accept(']')) {
      do {
        values.push_back(in_.integer("an integer", INT64_MIN, INT64_MAX));
        if (values.size() > kMaxList) in_.bad("more than {} integers", kMaxList);
      } while (in_.accept(','));
      in_.expect(']');
    }
    return values;
  }

  // 64, T, 2T, S+1, S-1
  Dim dim() {
    const char first = in_.peek();
    const bool has_number = first >= '0' && first <= '9';
    const std::int64_t number = has_number ? in_.integer("a dimension", 0, kMaxDim) : 1;
    std::optional<Symbol> symbol;
    if (in_.accept('T'))
      symbol = Symbol::kTokens;
    else if (in_.accept('S'))
      symbol = Symbol::kSequences;
    else if (in_.accept('R'))
      symbol = Symbol::kRows;
    else if (in_.accept('P'))
      symbol = Symbol::kPages;
    if (!symbol && !has_number) in_.bad("wanted a dimension (64, T, 2T, S+1), got {}", in_.here());
    if (!symbol) return Dim(number);
    Dim result(*symbol, number);
    const char sign = in_.peek();
    if (sign == '+' || sign == '-') {
      in_.expect(sign);
      const std::int64_t offset = in_.integer("a dimension's offset", 1, kMaxDim);
      result.offset = sign == '+' ? offset : -offset;
    }
    return result;
  }

  ValueType tensor_type(bool is_weight) {
    in_.peek();
    const std::size_t position = in_.position();
    const std::string_view name = in_.word("an element type");
    ValueType type;
    if (is_weight) {
      type.format = find_weight_format(name);
      if (!type.format) in_.bad_at(position, "unknown weight format '{}'", name);
    } else {
      const auto dtype = dtype_from_name(name);
      if (!dtype) in_.bad_at(position, "unknown dtype '{}'", name);
      type.dtype = *dtype;
    }
    in_.expect('[');
    if (in_.accept(']')) return type;
    do {
      if (type.dims.size() == Shape::kMaxRank) in_.bad("more than {} dimensions", Shape::kMaxRank);
      type.dims.push_back(dim());
    } while (in_.accept(','));
    in_.expect(']');
    return type;
  }

  StateSpec state_spec() {
    StateSpec spec;
    if (!in_.accept_word("kv")) in_.bad("wanted kv(...), got {}", in_.here());
    const auto field = [&](std::string_view name) {
      if (!in_.accept_word(name)) in_.bad("wanted '{}', got {}", name, in_.here());
      in_.expect('=');
    };
    in_.expect('(');
    field("heads");
    spec.kv_heads = in_.integer("heads", 1, kMaxDim);
    in_.expect(',');
    field("dim");
    spec.head_dim = in_.integer("dim", 1, kMaxDim);
    in_.expect(',');
    field("dtype");
    const std::size_t position = in_.position();
    const std::string_view name = in_.word("a dtype");
    const auto dtype = dtype_from_name(name);
    if (!dtype) in_.bad_at(position, "unknown dtype '{}'", name);
    if (!is_state_dtype(*dtype))
      in_.bad_at(position, "a state of {}, wanted f32, f16, bf16, i8 or e4m3", name);
    spec.dtype = *dtype;
    in_.expect(',');
    field("window");
    spec.window = in_.integer("window", 0, kMaxDim);
    if (in_.accept(',')) {
      field("sink_tokens");
      spec.sink_tokens = in_.integer("sink_tokens", 1, kMaxDim);
    }
    in_.expect(')');
    return spec;
  }

  Cursor in_;
  std::unordered_map<std::string_view, const OpDef*> ops_;
  std::unordered_map<std::string, ValueId> ids_;
  Graph graph_;
};

}  // namespace

Graph parse_graph(std::string_view text, OpTable ops) {
  if (text.size() > kMaxBytes)
    fail(ErrorCode::kBadInput, "[ir.parse] {} bytes, wanted at most {}", text.size(), kMaxBytes);
  return Parser(text, ops).run();
}

}  // namespace ingot
