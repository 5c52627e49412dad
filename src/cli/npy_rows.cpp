#include "cli/npy_rows.h"

#include "base/check.h"

#include <fmt/core.h>

#include <string>

namespace ingot::cli {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPreamble = 10;  // magic, version, u16 length

}  // namespace

// Format version 1.0: numpy.lib.format.
NpyRows::NpyRows(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns)
    : file_(path) {
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  header.append(kAlignment - 1 - (kPreamble + header.size()) % kAlignment, ' ');
  header += '\n';
  const auto size = static_cast<unsigned>(header.size());
  std::string preamble("\x93NUMPY\x01\x00", 8);
  preamble += static_cast<char>(size & 0xff);
  preamble += static_cast<char>(size >> 8);
  file_.write(preamble + header);
  bytes_ = file_.position() + static_cast<std::uint64_t>(rows * columns) * sizeof(float);
}

void NpyRows::commit() {
  check(file_.position() == bytes_, "every row of the file was written");
  file_.commit();
}

}  // namespace ingot::cli
