#include "formats/pickle.h"

#include "base/error.h"
#include "formats/byte_reader.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <unordered_map>

namespace ingot::pickle {

namespace {

constexpr std::size_t kMaxValues = 2'000'000;
constexpr std::size_t kMaxDims = 32;

constexpr std::array<std::string_view, 16> kGlobals = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch Size",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch DoubleStorage",
    "torch LongStorage",
    "torch IntStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch ByteStorage",
    "torch BoolStorage",
    "torch.storage TypedStorage",
    "torch.storage UntypedStorage",
};

// The pickle virtual machine, cut down. The stack holds pointers into the pool; a mark is a
// position of the stack.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string_view file, std::deque<Value>& pool)
      : reader_(bytes, "torch_pth", file), file_(file), pool_(pool) {}

  const Value* run() {
    while (true) {
      const auto opcode = reader_.number<std::uint8_t>("an opcode");
      if (opcode == '.') break;  // STOP
      if (!scalar(opcode) && !text(opcode) && !memo(opcode) && !container(opcode) && !call(opcode))
        refuse("opcode 0x{:02x} at byte {} is not read", opcode, reader_.position() - 1);
    }
    return pop();
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadInput, "[torch_pth.pickle] {}: {}", file_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  Value* make(Kind kind) {
    if (pool_.size() == kMaxValues) refuse("more than {} values", kMaxValues);
    Value& value = pool_.emplace_back();
    value.kind = kind;
    return &value;
  }
  Value* push(Kind kind) {
    Value* value = make(kind);
    stack_.push_back(value);
    return value;
  }
  void push_number(Kind kind, std::int64_t number) { push(kind)->number = number; }

  // Values below the topmost mark belong to an outer container.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Value* pop() {
    if (stack_.size() <= floor()) refuse("the stack is empty at byte {}", reader_.position());
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Value* top(Kind kind, std::string_view what) {
    if (stack_.size() <= floor() || stack_.back()->kind != kind)
      refuse("no {} on the stack at byte {}", what, reader_.position());
    return stack_.back();
  }
  std::vector<Value*> pop_to_mark() {
    if (marks_.empty()) refuse("no mark at byte {}", reader_.position());
    std::vector<Value*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                              stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  bool scalar(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (const auto version = reader_.number<std::uint8_t>("the protocol");
            version < 2 || version > 5)
          refuse("pickle protocol {}", version);
        return true;
      case 0x95:  // FRAME
        reader_.take(8, "a frame");
        return true;
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push_number(Kind::kBool, opcode == 0x88);
        return true;
      case 'K':
        push_number(Kind::kInt, reader_.number<std::uint8_t>("an integer"));
        return true;
      case 'M':
        push_number(Kind::kInt, reader_.number<std::uint16_t>("an integer"));
        return true;
      case 'J':
        push_number(Kind::kInt, reader_.number<std::int32_t>("an integer"));
        return true;
      case 0x8a:  // LONG1
        push_number(Kind::kInt, read_long());
        return true;
      case 'G':  // BINFLOAT, big endian: no value that matters to us is a float
        reader_.take(8, "a float");
        push(Kind::kFloat);
        return true;
      default:
        return false;
    }
  }

  // Two's complement, little endian, of up to 8 bytes.
  std::int64_t read_long() {
    const auto size = reader_.number<std::uint8_t>("an integer");
    if (size > 8) refuse("an integer of {} bytes", size);
    const auto bytes = reader_.take(size, "an integer");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    if (size > 0 && size < 8 && std::to_integer<int>(bytes[size - 1u]) & 0x80)
      value |= ~std::uint64_t{0} << (8 * size);
    return static_cast<std::int64_t>(value);
  }

  bool text(std::uint8_t opcode) {
    std::uint64_t size = 0;
    switch (opcode) {
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
        size = reader_.number<std::uint32_t>("a text");
        break;
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
        size = reader_.number<std::uint8_t>("a text");
        break;
      default:
        return false;
    }
    push(Kind::kText)->text = reader_.text(size, "a text");
    return true;
  }

  bool memo(std::uint8_t opcode) {
    switch (opcode) {
      case 'q':
        remember(reader_.number<std::uint8_t>("a memo index"));
        return true;
      case 'r':
        remember(reader_.number<std::uint32_t>("a memo index"));
        return true;
      case 0x94:  // MEMOIZE
        remember(static_cast<std::uint32_t>(memo_.size()));
        return true;
      case 'h':
        recall(reader_.number<std::uint8_t>("a memo index"));
        return true;
      case 'j':
        recall(reader_.number<std::uint32_t>("a memo index"));
        return true;
      default:
        return false;
    }
  }

  void remember(std::uint32_t index) {
    Value* value = pop();
    stack_.push_back(value);
    if (memo_.size() == kMaxValues) refuse("more than {} memo entries", kMaxValues);
    memo_[index] = value;
  }

  void recall(std::uint32_t index) {
    const auto it = memo_.find(index);
    if (it == memo_.end()) refuse("memo entry {} was never stored", index);
    if (stack_.size() == kMaxValues) refuse("more than {} values on the stack", kMaxValues);
    stack_.push_back(it->second);
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        if (marks_.size() == kMaxValues) refuse("more than {} marks", kMaxValues);
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case ')':  // EMPTY_TUPLE
      case ']':  // EMPTY_LIST
        push(Kind::kList);
        return true;
      case 't': {
        auto items = pop_to_mark();
        push(Kind::kList)->items = std::move(items);
        return true;
      }
      case 0x85:  // TUPLE1 to TUPLE3
      case 0x86:
      case 0x87:
        push_tuple(opcode - 0x84u);
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      default:
        return add_items(opcode);
    }
  }

  void push_tuple(std::size_t size) {
    std::vector<Value*> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    push(Kind::kList)->items = std::move(items);
  }

  bool add_items(std::uint8_t opcode) {
    switch (opcode) {
      case 'a': {  // APPEND
        Value* item = pop();
        top(Kind::kList, "list")->items.push_back(item);
        return true;
      }
      case 'e': {  // APPENDS
        const auto items = pop_to_mark();
        auto& list = top(Kind::kList, "list")->items;
        list.insert(list.end(), items.begin(), items.end());
        return true;
      }
      case 's': {  // SETITEM
        Value* value = pop();
        Value* key = pop();
        top(Kind::kDict, "dict")->entries.emplace_back(key, value);
        return true;
      }
      case 'u': {  // SETITEMS
        const auto items = pop_to_mark();
        if (items.size() % 2 != 0) refuse("a dict entry without a value");
        auto& entries = top(Kind::kDict, "dict")->entries;
        for (std::size_t i = 0; i < items.size(); i += 2)
          entries.emplace_back(items[i], items[i + 1]);
        return true;
      }
      default:
        return false;
    }
  }

  bool call(std::uint8_t opcode) {
    switch (opcode) {
      case 'c': {  // GLOBAL
        const std::string_view module = read_line();
        push_global(module, read_line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const Value* name = pop();
        const Value* module = pop();
        if (name->kind != Kind::kText || module->kind != Kind::kText)
          refuse("a global that is not named by texts");
        push_global(module->text, name->text);
        return true;
      }
      case 'R':
        reduce();
        return true;
      case 'b':  // BUILD: an OrderedDict's attributes (_metadata) mean nothing here
        pop();
        top(Kind::kDict, "dict");
        return true;
      case 'Q':
        push_storage(*pop());
        return true;
      default:
        return false;
    }
  }

  std::string_view read_line() {
    const std::uint64_t begin = reader_.position();
    ByteReader start = reader_;
    while (reader_.text(1, "a global's name") != "\n")
      if (reader_.position() - begin > 256) refuse("a global with a name of over 256 bytes");
    return start.text(reader_.position() - begin - 1, "a global's name");
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string full = std::string(module) + " " + std::string(name);
    const auto* known = std::find(kGlobals.begin(), kGlobals.end(), full);
    if (known == kGlobals.end())
      refuse("the global '{}' is refused: only a dict of tensors is read, nothing is executed",
             full.substr(0, 200));
    push(Kind::kGlobal)->text = *known;
  }

  void push_storage(const Value& id) {
    const auto& items = id.items;
    if (id.kind != Kind::kList || items.size() != 5 || items[0]->kind != Kind::kText ||
        items[0]->text != "storage" || items[1]->kind != Kind::kGlobal ||
        items[2]->kind != Kind::kText || items[4]->kind != Kind::kInt)
      refuse("a persistent id that is no storage");
    push(Kind::kStorage)->storage = std::make_unique<Storage>(
        Storage{.type = items[1]->text.substr(items[1]->text.find(' ') + 1),
                .key = items[2]->text,
                .elements = items[4]->number});
  }

  void reduce() {
    const Value* arguments = pop();
    const Value* callee = pop();
    if (callee->kind != Kind::kGlobal || arguments->kind != Kind::kList)
      refuse("a call of something that is no global");
    const auto& items = arguments->items;
    if (callee->text == "collections OrderedDict" && items.empty()) {
      push(Kind::kDict);
    } else if (callee->text == "torch Size" && items.size() == 1 && items[0]->kind == Kind::kList) {
      stack_.push_back(items[0]);  // a tuple already; copies would multiply it
    } else if (callee->text == "torch._utils _rebuild_tensor_v2" && items.size() >= 6) {
      push_tensor(items);
    } else if (callee->text == "torch._utils _rebuild_parameter" && !items.empty() &&
               items[0]->kind == Kind::kTensor) {
      stack_.push_back(items[0]);
    } else {
      refuse("a call of '{}' with {} arguments is not read", callee->text, items.size());
    }
  }

  // (storage, offset, size, stride, requires_grad, backward_hooks[, metadata])
  void push_tensor(const std::vector<Value*>& items) {
    if (items[0]->kind != Kind::kStorage || items[1]->kind != Kind::kInt)
      refuse("a tensor without a storage");
    Tensor tensor;
    tensor.storage = *items[0]->storage;
    tensor.offset = items[1]->number;
    tensor.shape = integers(*items[2]);
    tensor.strides = integers(*items[3]);
    if (tensor.shape.size() != tensor.strides.size())
      refuse("a tensor with {} sizes and {} strides", tensor.shape.size(), tensor.strides.size());
    push(Kind::kTensor)->tensor = std::make_unique<Tensor>(std::move(tensor));
  }

  std::vector<std::int64_t> integers(const Value& list) const {
    if (list.kind != Kind::kList || list.items.size() > kMaxDims)
      refuse("a tensor's size or stride is no tuple of at most {} integers", kMaxDims);
    std::vector<std::int64_t> result;
    for (const Value* item : list.items) {
      if (item->kind != Kind::kInt) refuse("a tensor's size or stride is no integer");
      result.push_back(item->number);
    }
    return result;
  }

  ByteReader reader_;
  std::string_view file_;
  std::deque<Value>& pool_;
  std::vector<Value*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Value*> memo_;
};

}  // namespace

Document::Document(std::span<const std::byte> bytes, std::string_view file) {
  root_ = Machine(bytes, file, pool_).run();
}

}  // namespace ingot::pickle
