// Encoding and decoding speed on one core; the text is repeated up to about 8 MB.
// usage: tokenizer_bench TEXT VOCAB.gguf...
#include "base/error.h"
#include "base/file.h"
#include "formats/gguf.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#include <fmt/core.h>

#include "tests/text/gguf_vocab.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ingot {
namespace {

// CPU time of this thread, so that other work on the machine does not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The best of five runs, in seconds.
template <typename F>
double best_of(F&& f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

void measure(const std::filesystem::path& file, const std::string& text) {
  const MappedFile mapped(file);
  const GgufContents contents = parse_gguf(mapped.bytes(), file);
  const double start = now();
  const Tokenizer built = tokenizer_from_gguf(read_gguf_vocab(contents.metadata));
  const double build = now() - start;
  const std::string image = built.serialize();
  std::vector<std::uint64_t> aligned((image.size() + 7) / 8);
  std::memcpy(aligned.data(), image.data(), image.size());
  const auto view = std::as_bytes(std::span(aligned)).first(image.size());
  const double open = best_of([&] { Tokenizer::open(view); });
  const Tokenizer tokenizer = Tokenizer::open(view);
  std::vector<std::int32_t> ids;
  const double encode = best_of([&] { ids = tokenizer.encode(text); });
  const double decode = best_of([&] { tokenizer.decode(ids); });
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  fmt::print("{:30} {:6} tokens, image {:4.1f} MB, build {:5.0f} ms, open {:5.2f} ms, ",
             file.filename().string(), tokenizer.vocab_size(),
             static_cast<double>(image.size()) / 1e6, build * 1e3, open * 1e3);
  fmt::print("encode {:5.1f} MB/s, decode {:5.1f} MB/s, {:.2f} bytes a token\n", megabytes / encode,
             megabytes / decode,
             static_cast<double>(text.size()) / static_cast<double>(ids.size()));
  std::fflush(stdout);
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: {} TEXT VOCAB.gguf...\n", argv[0]);
    return 2;
  }
  try {
    const std::string once = ingot::read_file(argv[1]);
    std::string text;
    while (!once.empty() && text.size() < (8u << 20)) text += once;
    for (int i = 2; i < argc; ++i) ingot::measure(argv[i], text);
  } catch (const ingot::Error& error) {
    fmt::print(stderr, "{}\n", error.message());
    return 1;
  }
  return 0;
}
