#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
};

// The entries of a zip archive whose entries are stored, not compressed (as torch.save writes
// them), zip64 included, in the order of the central directory. Views into `archive`; checksums are
// not verified. Throws Error{kBadInput} on anything else; `file` is for messages.
std::vector<ZipEntry> read_stored_zip(std::span<const std::byte> archive, std::string_view file);

}  // namespace ingot
