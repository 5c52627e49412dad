#include "formats/gguf.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/byte_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTensors = 1'000'000;
constexpr std::uint64_t kMaxKeys = 1'000'000;
constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr std::uint64_t kMaxNameBytes = 4096;
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{16} << 20;
constexpr std::int64_t kMaxAlignment = 1 << 20;

struct BlockType {
  std::uint32_t id;
  std::string_view name;  // in lower case the stem in quant/, if there is one
  std::int64_t values;    // a block
  std::int64_t bytes;     // a block
};

constexpr BlockType kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
};

const WeightFormat* format_of(const BlockType& type) {
  std::string stem;
  for (const char c : type.name) stem += static_cast<char>(std::tolower(c));
  return find_weight_format(stem);
}

std::uint64_t scalar_bytes(GgufType type) {
  constexpr std::array<std::uint64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

// Reads one file from front to back.
class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const fs::path& file)
      : bytes_(bytes), file_(file), name_(file.string()), reader_(bytes, "gguf", name_) {}

  GgufContents parse() {
    const auto [tensors, keys] = read_counts();
    contents_.metadata = GgufMetadata(name_);
    for (std::uint64_t i = 0; i < keys; ++i) read_pair();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors(read_alignment());
    return std::move(contents_);
  }

 private:
  struct Place {
    std::uint64_t offset;  // from the start of the data
    std::uint64_t bytes;
  };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadInput, "[gguf] {}: {}", name_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::pair<std::uint64_t, std::uint64_t> read_counts() {
    if (reader_.text(4, "the magic") != "GGUF") refuse("not a GGUF file");
    const auto version = reader_.number<std::uint32_t>("the version");
    if (version != 0 && (version & 0xffffu) == 0)
      refuse("big-endian GGUF is not read, convert it to little endian");
    if (version == 1) refuse("GGUF version 1 is not read, convert the model again");
    if (version != 2 && version != 3) refuse("GGUF version {}, known are 2 and 3", version);
    const auto tensors = reader_.number<std::uint64_t>("the number of tensors");
    const auto keys = reader_.number<std::uint64_t>("the number of keys");
    if (tensors > kMaxTensors) refuse("{} tensors, at most {} are read", tensors, kMaxTensors);
    if (keys > kMaxKeys) refuse("{} keys, at most {} are read", keys, kMaxKeys);
    return {tensors, keys};
  }

  std::string_view read_text(std::uint64_t limit, std::string_view what) {
    const auto size = reader_.number<std::uint64_t>(what);
    if (size > limit) refuse("{} of {} bytes, at most {} are read", what, size, limit);
    return reader_.text(size, what);
  }

  GgufType read_type(std::string_view key) {
    const auto type = reader_.number<std::uint32_t>("a value's type");
    if (type > static_cast<std::uint32_t>(GgufType::kF64))
      refuse("key {} has the unknown type {}", key, type);
    return static_cast<GgufType>(type);
  }

  void read_pair() {
    const std::string_view key = read_text(kMaxKeyBytes, "a key");
    if (key.empty()) refuse("an empty key at byte {}", reader_.position());
    GgufValue value;
    value.type = value.element = read_type(key);
    if (value.type == GgufType::kArray) {
      read_array(key, value);
    } else if (value.type == GgufType::kText) {
      value.bytes = std::as_bytes(std::span(read_text(kMaxTextBytes, key)));
    } else {
      value.bytes = reader_.take(scalar_bytes(value.type), key);
    }
    if (value.element == GgufType::kBool)
      for (const std::byte b : value.bytes)
        if (b > std::byte{1}) refuse("key {}: a bool that is neither 0 nor 1", key);
    if (!contents_.metadata.add(key, value)) refuse("key {} occurs twice", key);
  }

  void read_array(std::string_view key, GgufValue& value) {
    value.element = read_type(key);
    value.count = reader_.number<std::uint64_t>("an array's length");
    if (value.element == GgufType::kArray) refuse("key {}: arrays of arrays are not read", key);
    if (value.element != GgufType::kText) {
      const std::uint64_t size = scalar_bytes(value.element);
      if (value.count > reader_.remaining() / size)
        refuse("key {}: {} elements do not fit into the {} bytes left", key, value.count,
               reader_.remaining());
      value.bytes = reader_.take(value.count * size, key);
      return;
    }
    const std::uint64_t begin = reader_.position();
    if (value.count > reader_.remaining() / sizeof(std::uint64_t))
      refuse("key {}: {} texts do not fit into the {} bytes left", key, value.count,
             reader_.remaining());
    for (std::uint64_t i = 0; i < value.count; ++i) read_text(kMaxTextBytes, key);
    value.bytes = bytes_.subspan(begin, reader_.position() - begin);
  }

  void read_tensor() {
    SourceTensor tensor;
    tensor.name = read_text(kMaxNameBytes, "a tensor's name");
    tensor.file = file_;
    if (tensor.name.empty()) refuse("a tensor without a name at byte {}", reader_.position());
    const auto rank = reader_.number<std::uint32_t>("a tensor's rank");
    if (rank > Shape::kMaxRank)
      refuse("tensor {} has {} dimensions, at most {} are possible", tensor.name, rank,
             int{Shape::kMaxRank});
    std::array<std::int64_t, Shape::kMaxRank> dims{};  // outermost first
    for (std::uint32_t i = rank; i-- > 0;) {
      dims[i] = reader_.number<std::int64_t>("a tensor's dimension");
      if (dims[i] <= 0) refuse("tensor {} has the dimension {}", tensor.name, dims[i]);
    }
    tensor.shape = Shape(std::span<const std::int64_t>(dims.data(), rank));
    const auto id = reader_.number<std::uint32_t>("a tensor's type");
    const auto* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.id == id; });
    if (type == std::end(kTypes)) refuse("tensor {} has the unknown type {}", tensor.name, id);
    tensor.dtype = type->name;
    tensor.format = format_of(*type);
    places_.push_back({.offset = reader_.number<std::uint64_t>("a tensor's offset"),
                       .bytes = tensor_bytes(tensor, *type)});
    contents_.tensors.push_back(std::move(tensor));
  }

  std::uint64_t tensor_bytes(const SourceTensor& tensor, const BlockType& type) const {
    const Shape& shape = tensor.shape;
    const std::int64_t row = shape.rank() > 0 ? shape[shape.rank() - 1] : 1;
    if (row % type.values != 0)
      refuse("tensor {}: rows of {} values are not whole blocks of {} ({})", tensor.name, row,
             type.values, type.name);
    const auto elements = checked_product(shape.dims());
    std::int64_t bytes = 0;
    if (!elements || __builtin_mul_overflow(*elements / type.values, type.bytes, &bytes))
      refuse("tensor {} {} is larger than memory", tensor.name, to_string(shape));
    return static_cast<std::uint64_t>(bytes);
  }

  std::uint64_t read_alignment() const {
    const GgufValue* value = contents_.metadata.find("general.alignment");
    if (!value) return 32;
    if (value->type != GgufType::kU32)
      refuse("general.alignment is {}, wanted u32", gguf_type_name(value->type));
    const auto alignment = *contents_.metadata.integer("general.alignment");
    if (alignment <= 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
      refuse("general.alignment is {}, wanted a power of two of at most {}", alignment,
             kMaxAlignment);
    return static_cast<std::uint64_t>(alignment);
  }

  // Tensors follow one another, each padded to the alignment, in any order.
  void place_tensors(std::uint64_t alignment) {
    const auto padded = [&](std::uint64_t n) { return (n + alignment - 1) & ~(alignment - 1); };
    const std::uint64_t start = std::min<std::uint64_t>(padded(reader_.position()), bytes_.size());
    const auto data = bytes_.subspan(start);
    std::vector<std::size_t> order(places_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(places_[a].offset, a) < std::pair(places_[b].offset, b);
    });
    std::uint64_t at = 0;
    for (const std::size_t i : order) {
      const auto [offset, bytes] = places_[i];
      SourceTensor& tensor = contents_.tensors[i];
      if (offset % alignment != 0)
        refuse("tensor {} is at {}, no multiple of {}", tensor.name, offset, alignment);
      if (offset != at)
        refuse("tensor {} is at {}, wanted {}: tensors {}", tensor.name, offset, at,
               offset < at ? "overlap" : "leave a hole");
      if (offset > data.size() || bytes > data.size() - offset)
        refuse("truncated: tensor {} {} {} ends at byte {} of the data, the file holds {}",
               tensor.name, tensor.dtype, to_string(tensor.shape), offset + bytes, data.size());
      tensor.bytes = data.subspan(offset, bytes);
      at = padded(offset + bytes);
    }
  }

  std::span<const std::byte> bytes_;
  const fs::path& file_;
  std::string name_;
  ByteReader reader_;
  GgufContents contents_;
  std::vector<Place> places_;
};

// "-00001-of-00003.gguf" at the end of a name.
struct SplitName {
  std::string stem;
  std::string count_text;
  std::string beside(std::int64_t number) const {
    return fmt::format("{}-{:05}-of-{}.gguf", stem, number + 1, count_text);
  }
};

SplitName split_name(const fs::path& path, std::int64_t number, std::int64_t count) {
  const std::string ending = fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
  const std::string name = path.filename().string();
  if (!name.ends_with(ending))
    fail(ErrorCode::kBadInput,
         "[gguf.split] {}: part {} of {} of a split model, its name must end in {}", path.string(),
         number + 1, count, ending);
  return {.stem = name.substr(0, name.size() - ending.size()),
          .count_text = fmt::format("{:05}", count)};
}

class MappedGguf : public GgufSource {
 public:
  explicit MappedGguf(const fs::path& path) : GgufSource(path) {
    GgufContents first = open_file(path);
    metadata_ = std::move(first.metadata);
    const std::int64_t count = metadata_.integer("split.count").value_or(1);
    if (count > 1) append_splits(path, count, first.tensors);
    set_tensors(std::move(first.tensors));
  }

 private:
  GgufContents open_file(const fs::path& path) {
    return parse_gguf(files_.emplace_back(path).bytes(), path);
  }

  void append_splits(const fs::path& path, std::int64_t count, std::vector<SourceTensor>& all) {
    if (count > 99999)
      fail(ErrorCode::kBadInput, "[gguf.split] {}: {} parts", path.string(), count);
    const std::int64_t number = metadata_.require_integer("split.no");
    const SplitName name = split_name(path, number, count);
    if (number != 0)
      fail(ErrorCode::kBadInput, "[gguf.split] {}: part {} of {}, open the first: {}",
           path.string(), number + 1, count, name.beside(0));
    for (std::int64_t i = 1; i < count; ++i) {
      const fs::path part = path.parent_path() / name.beside(i);
      if (!fs::exists(part))
        fail(ErrorCode::kBadInput, "[gguf.split] {}: part {} of {} is not there: {}", path.string(),
             i + 1, count, part.string());
      GgufContents contents = open_file(part);
      if (contents.metadata.integer("split.no") != i ||
          contents.metadata.integer("split.count") != count)
        fail(ErrorCode::kBadInput, "[gguf.split] {}: says it is no part {} of {}", part.string(),
             i + 1, count);
      std::move(contents.tensors.begin(), contents.tensors.end(), std::back_inserter(all));
    }
    const auto wanted = metadata_.integer("split.tensors.count");
    if (wanted && *wanted != static_cast<std::int64_t>(all.size()))
      fail(ErrorCode::kBadInput, "[gguf.split] {}: {} tensors in all parts, wanted {}",
           path.string(), all.size(), *wanted);
  }

  std::vector<MappedFile> files_;
};

}  // namespace

GgufContents parse_gguf(std::span<const std::byte> bytes, const fs::path& file) {
  return Parser(bytes, file).parse();
}

std::unique_ptr<GgufSource> open_gguf(const fs::path& path) {
  return std::make_unique<MappedGguf>(path);
}

}  // namespace ingot
