#pragma once

#include "models/family.h"
#include "ops/reference/evaluate.h"

#include <map>
#include <string>
#include <vector>

namespace ingot::test {

// A Llama-shaped graph with made-up weights, before any pass, and everything to evaluate it by
// reference.
class TinyDecoder {
 public:
  struct Shape {
    std::int64_t layers = 2;
    bool biases = false;
    bool tied = false;
  };
  explicit TinyDecoder(const Shape& shape);

  const Graph& graph() const { return graph_; }
  // Logits of one step over two sequences (a prompt of 5 tokens and one of 1), for the rows that
  // the graph gives: every token, or, where it has an input `rows`, tokens 4 and 5.
  RefTensor logits(const Graph& graph) const;
  static std::vector<float> rows(const RefTensor& logits, const std::vector<int>& which);

 private:
  RefTensor part(std::string_view slot) const;

  DecoderConfig config_;
  Graph graph_;
  std::map<std::string, RefTensor> slots_;
};

}  // namespace ingot::test
