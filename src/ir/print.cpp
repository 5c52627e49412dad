#include "ir/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ingot {

namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string{'\\', c};
    else if (u < 0x20 || u >= 0x7f)
      out += fmt::format("\\x{:02x}", u);
    else
      out += c;
  }
  return out + "\"";
}

// A name as it is when made of safe characters, else in quotes.
std::string name_text(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_bare) ? std::string(name)
                                                                         : quoted(name);
}

std::string double_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // 1 is an integer, 1.0 is not
  return text;
}

struct AttrText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return double_text(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    std::string text = "[";
    for (std::size_t i = 0; i < values.size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(values[i]);
    return text + "]";
  }
};

std::string attrs_text(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs.entries())
    text += (text.empty() ? "" : ", ") + name + "=" + std::visit(AttrText{}, value);
  return text;
}

std::string reference(const Value& value) {
  const char sigil = value.kind == ValueKind::kWeight  ? '@'
                     : value.kind == ValueKind::kState ? '$'
                                                       : '%';
  return sigil + name_text(value.name);
}

std::string list(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) text += (text.empty() ? "" : ", ") + reference(graph.value(id));
  return text;
}

std::string declaration(const Value& value) {
  if (value.kind == ValueKind::kActivation) return "";
  const std::string_view keyword = value.kind == ValueKind::kInput    ? "input"
                                   : value.kind == ValueKind::kWeight ? "weight"
                                                                      : "state";
  std::string text = fmt::format("{} {} : {}", keyword, reference(value), to_string(value.type));
  if (!value.recipe.parts.empty()) {
    std::string parts;
    for (const std::string& part : value.recipe.parts)
      parts += (parts.empty() ? "" : ", ") + name_text(part);
    text += " from [" + parts + "]";
  }
  if (value.recipe.interleave != 0) text += fmt::format(" interleave {}", value.recipe.interleave);
  return text + "\n";
}

std::string node_text(const Graph& graph, const Node& node) {
  if (!node.op) return "# deleted\n";
  std::string text;
  if (!node.results.empty()) text += list(graph, node.results) + " = ";
  text += node.op->name;
  if (!node.operands.empty()) text += " " + list(graph, node.operands);
  if (!node.attrs.empty()) text += " {" + attrs_text(node.attrs) + "}";
  for (std::size_t i = 0; i < node.results.size(); ++i)
    text += (i == 0 ? " : " : ", ") + to_string(graph.type(node.results[i]));
  return text + "\n";
}

std::string dot_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string print(const Graph& graph) {
  std::string text = fmt::format("graph {} (T<={}, S<={}, R<={}, P<={})\n", name_text(graph.name),
                                 graph.max[Symbol::kTokens], graph.max[Symbol::kSequences],
                                 graph.max[Symbol::kRows], graph.max[Symbol::kPages]);
  for (const Value& value : graph.values) text += declaration(value);
  for (const Node& node : graph.nodes) text += node_text(graph, node);
  if (!graph.outputs.empty()) text += "output " + list(graph, graph.outputs) + "\n";
  return text;
}

std::string print_dot(const Graph& graph) {
  std::string text = fmt::format("digraph \"{}\" {{\n  rankdir=TB;\n  node [shape=box];\n",
                                 dot_escaped(graph.name));
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    if (v.kind == ValueKind::kActivation) continue;
    text += fmt::format("  v{} [shape={} label=\"{}\\n{}\"];\n", i,
                        v.kind == ValueKind::kWeight ? "note" : "ellipse",
                        dot_escaped(reference(v)), dot_escaped(to_string(v.type)));
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.op) continue;
    text += fmt::format("  n{} [style=filled fillcolor=lightgrey label=\"{}\\n{}\"];\n", n,
                        node.op->name, dot_escaped(attrs_text(node.attrs)));
    for (const ValueId id : node.operands) {
      const Value& v = graph.value(id);
      const std::string source =
          v.producer == kNone ? fmt::format("v{}", id) : fmt::format("n{}", v.producer);
      text += fmt::format("  {} -> n{} [label=\"{}\"];\n", source, n,
                          v.producer == kNone ? "" : dot_escaped(to_string(v.type)));
    }
  }
  for (const ValueId id : graph.outputs) {
    const Value& v = graph.value(id);
    text += fmt::format("  o{} [shape=ellipse label=\"output {}\"];\n", id, dot_escaped(v.name));
    text += fmt::format("  {}{} -> o{};\n", v.producer == kNone ? "v" : "n",
                        v.producer == kNone ? id : v.producer, id);
  }
  return text + "}\n";
}

}  // namespace ingot
