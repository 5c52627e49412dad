#include "formats/npy.h"

#include "base/file.h"

#include "tests/formats/file_bytes.h"
#include <string>
#include <vector>

namespace ingot {
namespace {

using test::bytes_of;
using test::expect_bad_input;
using test::raw;
using test::TemporaryFolder;

// As numpy.save writes it.
std::string npy(const std::string& dict, const std::string& data) {
  std::string header = dict;
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return "\x93NUMPY\x01" + std::string(1, '\0') + raw(static_cast<std::uint16_t>(header.size())) +
         header + data;
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

TEST(Npy, WritesWhatNumpyWrites) {
  const TemporaryFolder folder;
  const std::string data = raw(1.f) + raw(2.f) + raw(3.f) + raw(4.f) + raw(5.f) + raw(6.f);
  write_npy(folder.path() / "a.npy", DType::kF32, Shape{2, 3}, bytes_of(data));
  EXPECT_EQ(read_file(folder.path() / "a.npy"), npy(dict("<f4", "(2, 3)"), data));
  write_npy(folder.path() / "b.npy", DType::kI64, Shape{1}, bytes_of(raw<std::int64_t>(-4)));
  EXPECT_EQ(read_file(folder.path() / "b.npy"), npy(dict("<i8", "(1,)"), raw<std::int64_t>(-4)));
  write_npy(folder.path() / "c.npy", DType::kF16, Shape{}, bytes_of("ab"));
  EXPECT_EQ(read_file(folder.path() / "c.npy"), npy(dict("<f2", "()"), "ab"));
}

TEST(Npy, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  const std::string data(4 * 3 * 5, 'x');
  for (const Shape& shape :
       {Shape{}, Shape{15}, Shape{3, 5}, Shape{3, 1, 5}, Shape{1, 3, 5, 1}, Shape{0, 7}}) {
    const std::string part = data.substr(0, static_cast<std::size_t>(shape.elements()) * 4);
    write_npy(folder.path() / "a.npy", DType::kI32, shape, bytes_of(part));
    const NpyArray array = read_npy(folder.path() / "a.npy");
    EXPECT_EQ(array.dtype, DType::kI32);
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(array.bytes.size(), part.size());
  }
}

TEST(Npy, RefusesWhatItCannotRead) {
  const auto refused = [](const std::string& file, std::string_view part) {
    expect_bad_input([&] { parse_npy(bytes_of(file), "a.npy"); }, {"a.npy", part});
  };
  const std::string good = npy(dict("<f4", "(2,)"), "12345678");
  EXPECT_EQ(parse_npy(bytes_of(good), "a.npy").shape, Shape({2}));
  for (std::size_t size = 0; size < good.size(); ++size) refused(good.substr(0, size), "");
  refused(good + "x", "does not match the 9 bytes");
  refused(npy(dict("<f8", "(1,)"), "12345678"), "<f8");
  refused(npy(dict(">f4", "(2,)"), "12345678"), ">f4");
  refused(npy(dict("|O", "(2,)"), "12345678"), "|O");
  refused(npy(dict("<f4", "(2,)", "True"), "12345678"), "C order");
  refused(npy("{}", ""), "descr");
  for (const char* shape : {"(-2,)", "(2", "2", "(a,)", "(1,1,1,1,2)", "(4611686018427387904,2)",
                            "(99999999999999999999,)", "(2 3)", "(,"})
    refused(npy(dict("<f4", shape), "12345678"), "");
}

}  // namespace
}  // namespace ingot
