#include "formats/torch_pth.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/pickle.h"
#include "formats/zip_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ingot {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPickleBytes = std::size_t{64} << 20;

struct StorageType {
  std::string_view storage;
  std::string_view dtype;
  std::int64_t bytes;
  std::string_view format;  // of quant/; empty where Ingot does not compute with it
};
constexpr StorageType kTypes[] = {
    {"FloatStorage", "F32", 4, "f32"},      {"HalfStorage", "F16", 2, "f16"},
    {"BFloat16Storage", "BF16", 2, "bf16"}, {"DoubleStorage", "F64", 8, ""},
    {"LongStorage", "I64", 8, ""},          {"IntStorage", "I32", 4, ""},
    {"ShortStorage", "I16", 2, ""},         {"CharStorage", "I8", 1, ""},
    {"ByteStorage", "U8", 1, ""},           {"BoolStorage", "BOOL", 1, ""},
};

class Archive {
 public:
  Archive(std::span<const std::byte> bytes, const fs::path& file)
      : file_(file), name_(file.string()), copies_left_(bytes.size()) {
    refuse_legacy(bytes);
    std::vector<ZipEntry> entries = read_stored_zip(bytes, name_);
    const auto main = std::find_if(entries.begin(), entries.end(),
                                   [](auto& e) { return e.name.ends_with("/data.pkl"); });
    if (main == entries.end()) refuse("no data.pkl in the archive: not a file of torch.save");
    pickle_ = main->bytes;
    const std::string root(main->name.substr(0, main->name.size() - 8));
    for (const ZipEntry& entry : entries) {
      if (!entry.name.starts_with(root)) continue;
      const std::string_view inner = entry.name.substr(root.size());
      if (inner == "byteorder" && text(entry) != "little")
        refuse("byte order '{}', only little is read", text(entry).substr(0, 16));
      if (inner.starts_with("data/")) storages_.emplace(inner.substr(5), entry.bytes);
    }
  }

  TorchContents read() {
    if (pickle_.size() > kMaxPickleBytes)
      refuse("a pickle of {} bytes, at most {} are read", pickle_.size(), kMaxPickleBytes);
    const pickle::Document document(pickle_, name_);
    const pickle::Value& root = document.root();
    if (root.kind != pickle::Kind::kDict) refuse("holds no dict of tensors");
    for (const auto& [key, value] : root.entries) {
      if (value->kind != pickle::Kind::kTensor) continue;
      if (key->kind != pickle::Kind::kText) refuse("a tensor whose name is no text");
      add(key->text, *value->tensor);
    }
    if (contents_.tensors.empty() && !root.entries.empty())
      refuse(
          "the dict has {} entries and no tensor among them (a nested or a training checkpoint?)",
          root.entries.size());
    return std::move(contents_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadInput, "[torch_pth] {}: {}", name_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  static std::string_view text(const ZipEntry& entry) {
    return {reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()};
  }

  // Before torch 1.6 the file was a row of pickles, the first of them a magic number.
  void refuse_legacy(std::span<const std::byte> bytes) const {
    constexpr std::string_view kMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (all.starts_with(kMagic))
      refuse("written in the form of torch before 1.6; load it in torch and save it again");
    if (all.starts_with("version https://git-lfs"))
      refuse("a Git LFS pointer, not the weights; run `git lfs pull`");
  }

  std::span<const std::byte> storage_bytes(std::string_view name, const pickle::Storage& storage,
                                           const StorageType& type) const {
    const auto it = storages_.find(storage.key);
    if (it == storages_.end())
      refuse("tensor {}: its storage data/{} is not in the archive", name, storage.key);
    std::int64_t wanted = 0;
    if (storage.elements < 0 || __builtin_mul_overflow(storage.elements, type.bytes, &wanted) ||
        static_cast<std::uint64_t>(wanted) != it->second.size())
      refuse("tensor {}: storage data/{} should hold {} {}, it has {} bytes", name, storage.key,
             storage.elements, type.dtype, it->second.size());
    return it->second;
  }

  // Elements from the first to behind the last that shape and strides reach; nothing when absurd.
  static std::optional<std::int64_t> extent(const pickle::Tensor& tensor) {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      std::int64_t step = 0;
      if (tensor.strides[i] < 0 ||
          __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
          __builtin_add_overflow(last, step, &last))
        return std::nullopt;
    }
    return last + 1;
  }

  static bool row_major(const pickle::Tensor& tensor) {
    std::int64_t wanted = 1;
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      if (tensor.shape[i] != 1 && tensor.strides[i] != wanted) return false;
      wanted *= tensor.shape[i];
    }
    return true;
  }

  void add(std::string_view name, const pickle::Tensor& from) {
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](auto& t) { return t.storage == from.storage.type; });
    if (type == std::end(kTypes)) refuse("tensor {}: {} is not read", name, from.storage.type);
    const auto bytes = storage_bytes(name, from.storage, *type);
    const auto elements = checked_product(from.shape);
    if (!elements) refuse("tensor {}: impossible sizes", name);
    SourceTensor tensor{.name = std::string(name), .dtype = std::string(type->dtype)};
    tensor.file = file_;
    if (from.shape.size() <= Shape::kMaxRank) {
      tensor.shape = Shape(std::span<const std::int64_t>(from.shape));
      if (!type->format.empty()) tensor.format = find_weight_format(type->format);
    } else {
      tensor.shape = Shape{*elements};
      tensor.dtype += " of " + std::to_string(from.shape.size()) + " dimensions, flat";
    }
    if (*elements > 0) {
      const auto reach = extent(from);
      std::int64_t end = 0;
      if (from.offset < 0 || !reach || __builtin_add_overflow(from.offset, *reach, &end) ||
          end > from.storage.elements)
        refuse("tensor {} {}: reaches past the {} elements of its storage", name,
               to_string(tensor.shape), from.storage.elements);
      const auto view = bytes.subspan(static_cast<std::size_t>(from.offset * type->bytes),
                                      static_cast<std::size_t>(*reach * type->bytes));
      tensor.bytes = row_major(from) ? view : copy(name, from, view, type->bytes);
    }
    contents_.tensors.push_back(std::move(tensor));
  }

  // Gathers a strided tensor in row-major order. Copies are limited to the size of the file: many
  // views of one storage must not multiply it.
  std::span<const std::byte> copy(std::string_view name, const pickle::Tensor& from,
                                  std::span<const std::byte> view, std::int64_t element) {
    const std::int64_t elements = *checked_product(from.shape);
    std::int64_t total = 0;
    if (__builtin_mul_overflow(elements, element, &total) ||
        static_cast<std::uint64_t>(total) > copies_left_)
      refuse("tensor {}: strided views larger than the file itself", name);
    copies_left_ -= static_cast<std::uint64_t>(total);
    auto& out = contents_.copies.emplace_back(static_cast<std::size_t>(total));
    std::vector<std::int64_t> index(from.shape.size(), 0);
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      std::memcpy(out.data() + i * element, view.data() + at * element,
                  static_cast<std::size_t>(element));
      for (std::size_t axis = index.size(); axis-- > 0;) {
        at += from.strides[axis];
        if (++index[axis] < from.shape[axis]) break;
        at -= from.strides[axis] * from.shape[axis];
        index[axis] = 0;
      }
    }
    return out;
  }

  const fs::path& file_;
  std::string name_;
  std::uint64_t copies_left_;
  std::span<const std::byte> pickle_;
  std::unordered_map<std::string_view, std::span<const std::byte>> storages_;
  TorchContents contents_;
};

class TorchSource : public TensorSource {
 public:
  explicit TorchSource(const fs::path& path) : TensorSource(path), mapping_(path) {
    TorchContents contents = parse_torch_pth(mapping_.bytes(), path);
    copies_ = std::move(contents.copies);
    set_tensors(std::move(contents.tensors));
  }

 private:
  MappedFile mapping_;
  std::deque<std::vector<std::byte>> copies_;
};

}  // namespace

TorchContents parse_torch_pth(std::span<const std::byte> bytes, const fs::path& file) {
  return Archive(bytes, file).read();
}

std::unique_ptr<TensorSource> open_torch_pth(const fs::path& path) {
  return std::make_unique<TorchSource>(path);
}

}  // namespace ingot
