#include "formats/safetensors_header.h"

#include "base/error.h"
#include "base/json_reason.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace ingot::safetensors {

namespace {

constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxDims = 32;

// Takes the events of the (iterative) parser, so that duplicate names are seen and a header of
// 100 MB never becomes a tree. Depth: 1 the header, 2 an entry, 3 a list in an entry.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  std::vector<Entry> take() { return std::move(entries_); }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || (depth_ == 1 && state_ != State::kEntry)) refuse("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) finish_entry();
    in_metadata_ = false;
    --depth_;
    state_ = State::kEntry;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      start_entry(text);
    } else if (!in_metadata_) {
      start_field(text);
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || (state_ != State::kShape && state_ != State::kOffsets))
      refuse("a list");
    depth_ = 3;
    return true;
  }
  bool end_array() override {
    depth_ = 2;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ != 2 || (!in_metadata_ && state_ != State::kDtype)) refuse("a text");
    if (!in_metadata_) entry_.dtype = text;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (depth_ != 3) refuse("a number");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse("a number past 2^63");
    if (state_ == State::kShape) {
      if (entry_.shape.size() == kMaxDims) refuse("more than 32 dimensions");
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else {
      if (offsets_ == 2) refuse("more than two offsets");
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    }
    return true;
  }
  bool number_integer(std::int64_t) override { refuse("a negative number"); }
  bool number_float(double, const std::string&) override { refuse("a number with a fraction"); }
  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("true or false"); }
  bool binary(nlohmann::json::binary_t&) override { refuse("binary"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& e) override {
    fail(ErrorCode::kBadInput, "[safetensors.header] {}: not JSON at byte {}: {}", file_, position,
         json_reason(e));
  }

 private:
  enum class State { kEntry, kDtype, kShape, kOffsets };

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kBadInput, "[safetensors.header] {}: unexpected {} in the entry of tensor '{}'",
         file_, what, entry_.name);
  }

  void start_entry(const std::string& name) {
    if (name.size() > kMaxNameBytes)
      fail(ErrorCode::kBadInput, "[safetensors.header] {}: a name of {} bytes, at most {} are read",
           file_, name.size(), kMaxNameBytes);
    entry_ = Entry{.name = name};
    if (!names_.insert(name).second)
      fail(ErrorCode::kBadInput, "[safetensors.header] {}: tensor {} occurs twice", file_, name);
    if (entries_.size() == kMaxTensors)
      fail(ErrorCode::kBadInput, "[safetensors.header] {}: more than {} tensors", file_,
           kMaxTensors);
    in_metadata_ = name == "__metadata__";
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    offsets_ = 0;
    state_ = State::kEntry;
  }

  void start_field(const std::string& field) {
    bool* seen = nullptr;
    if (field == "dtype") {
      state_ = State::kDtype;
      seen = &seen_dtype_;
    } else if (field == "shape") {
      state_ = State::kShape;
      seen = &seen_shape_;
    } else if (field == "data_offsets") {
      state_ = State::kOffsets;
      seen = &seen_offsets_;
    } else {
      refuse("field '" + field.substr(0, 64) + "'");
    }
    if (std::exchange(*seen, true)) refuse("second " + field);
  }

  void finish_entry() {
    if (!seen_dtype_ || !seen_shape_ || offsets_ != 2)
      fail(ErrorCode::kBadInput,
           "[safetensors.header] {}: tensor {} lacks dtype, shape or two data_offsets", file_,
           entry_.name);
    entries_.push_back(std::move(entry_));
  }

  std::string_view file_;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  Entry entry_;
  State state_ = State::kEntry;
  int depth_ = 0;
  int offsets_ = 0;
  bool in_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

}  // namespace

std::vector<Entry> parse_header(std::string_view json, std::string_view file) {
  if (!json.starts_with('{'))
    fail(ErrorCode::kBadInput, "[safetensors.header] {}: the header does not start with '{{'",
         file);
  HeaderReader reader(file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

}  // namespace ingot::safetensors
