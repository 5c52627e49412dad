#include "plan/engine_file.h"

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_reason.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

constexpr std::array<char, 8> kMagic = {'I', 'N', 'G', 'O', 'T', 'E', 'N', 'G'};
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 30;

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t table_offset;  // manifest first, blob table behind it
  std::uint64_t manifest_bytes;
  std::uint64_t table_bytes;
  std::uint64_t table_checksum;  // of both
  std::uint64_t file_bytes;
  std::uint64_t checksum;  // of all bytes before it
};
static_assert(sizeof(Header) == 64);

std::uint64_t header_checksum(const Header& h) {
  return hash64(
      std::as_bytes(std::span(reinterpret_cast<const char*>(&h), offsetof(Header, checksum))));
}

Header read_header(const MappedFile& file) {
  Header header;
  const std::string name = file.path().string();
  if (file.size() < sizeof header)
    fail(ErrorCode::kBadInput,
         "[engine.header] {}: torn: {} bytes, which is not even a header; build or copy it again",
         name, file.size());
  if (std::memcmp(file.bytes().data(), kMagic.data(), kMagic.size()) != 0)
    fail(ErrorCode::kBadInput, "[engine.header] {}: not an Ingot engine", name);
  std::memcpy(&header, file.bytes().data(), sizeof header);
  // First: another format may keep its checksum elsewhere.
  if (header.version != kEngineFormatVersion)
    fail(ErrorCode::kBadInput,
         "[engine.header] {}: written in format {}, this Ingot reads format {}; build the engine "
         "again",
         name, header.version, kEngineFormatVersion);
  if (header.checksum != header_checksum(header))
    fail(ErrorCode::kBadInput, "[engine.header] {}: the header is damaged; build the engine again",
         name);
  if (header.file_bytes != file.size())
    fail(ErrorCode::kBadInput,
         "[engine.header] {}: torn: {} bytes, {} were written; build or copy it again", name,
         file.size(), header.file_bytes);
  if (header.manifest_bytes > kMaxTableBytes || header.table_bytes > kMaxTableBytes ||
      header.table_offset > file.size() ||
      header.manifest_bytes + header.table_bytes > file.size() - header.table_offset)
    fail(ErrorCode::kBadInput, "[engine.header] {}: tables lie outside the file", name);
  return header;
}

}  // namespace

struct BlobHasher {
  BlobHasher() : state(XXH3_createState()) { reset(); }
  ~BlobHasher() { XXH3_freeState(state); }
  BlobHasher(const BlobHasher&) = delete;
  BlobHasher& operator=(const BlobHasher&) = delete;
  void reset() { XXH3_64bits_reset(state); }
  XXH3_state_t* state;
};

EngineWriter::EngineWriter(const std::filesystem::path& path) : file_(path) {
  file_.write(std::string(sizeof(Header), '\0'));
}

void EngineWriter::begin_blob(std::string name) {
  check(!hasher_, "one blob at a time");
  file_.pad_to(kBlobAlignment);
  blobs_.push_back({.name = std::move(name), .offset = file_.position()});
  hasher_ = std::make_shared<BlobHasher>();
}

void EngineWriter::append(std::span<const std::byte> bytes) {
  check(hasher_ != nullptr, "append outside a blob");
  XXH3_64bits_update(hasher_->state, bytes.data(), bytes.size());
  file_.write(bytes);
}

std::uint64_t EngineWriter::blob_position() const {
  return file_.position() - blobs_.back().offset;
}

void EngineWriter::pad_blob_to(std::uint64_t alignment) {
  const std::uint64_t rest = blob_position() % alignment;
  if (rest == 0) return;
  const std::string zeros(alignment - rest, '\0');
  append(std::as_bytes(std::span(zeros)));
}

void EngineWriter::end_blob() {
  check(hasher_ != nullptr, "end outside a blob");
  blobs_.back().bytes = blob_position();
  blobs_.back().checksum = XXH3_64bits_digest(hasher_->state);
  hasher_.reset();
}

void EngineWriter::add_blob(std::string name, std::span<const std::byte> bytes) {
  begin_blob(std::move(name));
  append(bytes);
  end_blob();
}

void EngineWriter::commit(const Json& manifest) {
  check(!hasher_, "commit inside a blob");
  file_.pad_to(kBlobAlignment);
  Json table = Json::array();
  for (const EngineBlob& b : blobs_)
    table.push_back(
        {{"name", b.name}, {"offset", b.offset}, {"bytes", b.bytes}, {"checksum", b.checksum}});
  const std::string manifest_text = dump_json(manifest);
  const std::string text = manifest_text + dump_json(table);
  Header header{.magic = kMagic,
                .version = kEngineFormatVersion,
                .reserved = 0,
                .table_offset = file_.position(),
                .manifest_bytes = manifest_text.size(),
                .table_bytes = text.size() - manifest_text.size(),
                .table_checksum = hash64(text),
                .file_bytes = file_.position() + text.size(),
                .checksum = 0};
  header.checksum = header_checksum(header);
  file_.write(text);
  file_.write_at(0, std::as_bytes(std::span(&header, 1)));
  file_.commit();
}

EngineFile::EngineFile(const std::filesystem::path& path) : file_(path) {
  const Header header = read_header(file_);
  const std::string_view text =
      file_.text().substr(header.table_offset, header.manifest_bytes + header.table_bytes);
  if (hash64(text) != header.table_checksum)
    fail(ErrorCode::kBadInput, "[engine.tables] {}: the tables are damaged; build the engine again",
         path.string());
  manifest_ =
      std::make_unique<Json>(parse_json(text.substr(0, header.manifest_bytes), "engine manifest"));
  read_blob_table(text.substr(header.manifest_bytes), header.table_offset);
}

void EngineFile::read_blob_table(std::string_view text, std::uint64_t end) {
  const Json table = parse_json(text, "engine blob table");
  const auto number = [&](const Json& row, const char* key) {
    const Json& value = row.at(key);
    if (!value.is_number_unsigned())
      fail(ErrorCode::kBadInput, "[engine.tables] {}: {} of a blob is {}; build the engine again",
           path().string(), key, dump_json(value));
    return value.get<std::uint64_t>();
  };
  try {
    for (const Json& row : table) {
      EngineBlob blob{.name = row.at("name").get<std::string>(),
                      .offset = number(row, "offset"),
                      .bytes = number(row, "bytes"),
                      .checksum = number(row, "checksum")};
      if (blob.offset % kBlobAlignment != 0 || blob.offset > end || blob.bytes > end - blob.offset)
        fail(ErrorCode::kBadInput, "[engine.blob] {}: {} lies outside the file", path().string(),
             blob.name);
      blobs_.push_back(std::move(blob));
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kBadInput, "[engine.tables] {}: {}; build the engine again", path().string(),
         json_reason(e));
  }
}

EngineFile::~EngineFile() = default;
EngineFile::EngineFile(EngineFile&&) noexcept = default;
EngineFile& EngineFile::operator=(EngineFile&&) noexcept = default;

const EngineBlob* EngineFile::find_blob(std::string_view name) const {
  const auto it = std::find_if(blobs_.begin(), blobs_.end(),
                               [&](const EngineBlob& b) { return b.name == name; });
  return it == blobs_.end() ? nullptr : &*it;
}

std::span<const std::byte> EngineFile::bytes(const EngineBlob& blob) const {
  return file_.bytes().subspan(blob.offset, blob.bytes);
}

std::span<const std::byte> EngineFile::blob(std::string_view name) const {
  const EngineBlob* found = find_blob(name);
  if (!found)
    fail(ErrorCode::kBadInput, "[engine.blob] {}: has no {}; build the engine again",
         path().string(), name);
  return bytes(*found);
}

std::span<const std::byte> EngineFile::verified(const EngineBlob& blob) const {
  BlobCheck pieces(*this, {&blob, 1});
  while (pieces.step()) continue;
  return bytes(blob);
}

void EngineFile::verify_blobs(const std::function<void(std::uint64_t)>& progress) const {
  BlobCheck pieces(*this, blobs_);
  while (pieces.step())
    if (progress) progress(pieces.done());
}

bool EngineFile::is_engine(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 8> magic{};
  return in.read(magic.data(), magic.size()) && magic == kMagic;
}

BlobCheck::BlobCheck(const EngineFile& file, std::span<const EngineBlob> blobs)
    : file_(file), blobs_(blobs), hash_(std::make_unique<BlobHasher>()) {}

BlobCheck::~BlobCheck() = default;

bool BlobCheck::step() {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 18;
  if (blobs_.empty()) return false;
  const EngineBlob& blob = blobs_.front();
  const auto piece = file_.bytes(blob).subspan(at_, std::min(kPiece, blob.bytes - at_));
  XXH3_64bits_update(hash_->state, piece.data(), piece.size());
  at_ += piece.size();
  done_ += piece.size();
  if (at_ < blob.bytes) return true;
  compare(blob);
  hash_->reset();
  at_ = 0;
  blobs_ = blobs_.subspan(1);
  return true;
}

void BlobCheck::compare(const EngineBlob& blob) {
  const std::uint64_t sum = XXH3_64bits_digest(hash_->state);
  if (sum == blob.checksum) return;
  fail(ErrorCode::kBadInput,
       "[engine.blob] {}: {} is damaged (checksum {:016x}, wanted {:016x}); build the engine again",
       file_.path().string(), blob.name, sum, blob.checksum);
}

}  // namespace ingot
