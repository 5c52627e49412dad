#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

// Reads the pickle inside a torch.save archive as data. Nothing is imported, constructed or called:
// a global is a name from a short list, and the only "calls" known are those that describe a
// tensor.
namespace ingot::pickle {

struct Value;

// A storage by persistent id: ('storage', <type>, key, location, elements).
struct Storage {
  std::string_view type;  // "FloatStorage"
  std::string_view key;   // the archive's entry data/<key>
  std::int64_t elements = 0;
};

struct Tensor {
  Storage storage;
  std::int64_t offset = 0;  // in elements
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements
};

enum class Kind { kNone, kBool, kInt, kFloat, kText, kGlobal, kList, kDict, kStorage, kTensor };

struct Value {
  Kind kind = Kind::kNone;
  std::int64_t number = 0;                         // bool, int
  std::string_view text;                           // text; global as "module name"
  std::vector<Value*> items;                       // list, tuple
  std::vector<std::pair<Value*, Value*>> entries;  // dict, in the order of insertion
  std::unique_ptr<Storage> storage;
  std::unique_ptr<Tensor> tensor;
};

// The values of one pickle; texts are views into its bytes (or into the pool).
class Document {
 public:
  // Throws Error{kBadInput} on an opcode or a global outside the list, naming it, and on anything
  // malformed. `file` is for messages.
  Document(std::span<const std::byte> bytes, std::string_view file);
  const Value& root() const { return *root_; }

 private:
  std::deque<Value> pool_;
  const Value* root_ = nullptr;
};

}  // namespace ingot::pickle
