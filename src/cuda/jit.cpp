#include "cuda/jit.h"

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "cuda/nvrtc_api.h"
#include "cuda/sources.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace ingot::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCacheFile = std::size_t{64} << 20;

std::vector<std::string> compile_options(const std::string& arch, const NvrtcApi& nvrtc) {
  // No fast-math: it would break NaN, infinities and denormals in softmax and sampling.
  std::vector<std::string> options{"--gpu-architecture=" + arch, "--std=c++20", "-default-device",
                                   "--ptxas-options=-v", "-DNDEBUG"};
  // NVRTC's own cache gives no log, and ours stands before it.
  if (nvrtc.major > 12 || (nvrtc.major == 12 && nvrtc.minor >= 9)) options.push_back("--no-cache");
  return options;
}

// The number right before `unit` in `line`, 0 when it is not there.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

struct Program {
  const NvrtcApi& nvrtc;
  NvrtcProgram handle = nullptr;
  ~Program() {
    if (handle) nvrtc.destroy_program(&handle);
  }
  std::string log() const {
    std::size_t size = 0;
    if (nvrtc.get_log_size(handle, &size) != 0 || size == 0) return {};
    std::string text(size, '\0');
    if (nvrtc.get_log(handle, text.data()) != 0) return {};
    text.resize(std::strlen(text.c_str()));
    return text;
  }
};

void check_arch(const NvrtcApi& nvrtc, const std::string& arch) {
  int count = 0;
  if (nvrtc.get_num_supported_archs(&count) != 0) return;
  std::vector<int> archs(static_cast<std::size_t>(count));
  if (nvrtc.get_supported_archs(archs.data()) != 0) return;
  std::string known;
  const int wanted = std::atoi(arch.c_str() + std::strlen("sm_"));
  for (const int a : archs) {
    if (a == wanted) return;
    known += fmt::format(" {}", a);
  }
  fail(ErrorCode::kDevice,
       "[cuda.jit] NVRTC {}.{} ({}) cannot compile for {}, it knows{}: pip install -U "
       "nvidia-cuda-nvrtc",
       nvrtc.major, nvrtc.minor, nvrtc.path, arch, known);
}

fs::path default_cache_folder() {
  if (const char* cache = std::getenv("INGOT_CACHE"); cache && *cache)
    return fs::path(cache) / "kernels";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".cache" / "ingot" / "kernels";
  return {};
}

// What stands before the cubin in a cache file.
struct CacheHeader {
  char magic[8];
  ResourceUse use;
  std::uint64_t name_hash;
  std::uint64_t size;
  std::uint64_t checksum;
};
constexpr char kMagic[8] = {'i', 'n', 'g', 'o', 't', 'c', 'b', '1'};

std::optional<CompiledKernel> read_cache(const fs::path& path, const std::string& name) {
  std::error_code ignored;
  if (path.empty() || !fs::exists(path, ignored)) return std::nullopt;
  try {
    auto kernel = decode_cache_file(read_file(path, kMaxCacheFile), name);
    if (!kernel) log_warning("[cuda.jit] {} is broken, compiling again", path.string());
    return kernel;
  } catch (const Error& e) {
    log_warning("{}", e.message());
    return std::nullopt;
  }
}

// A cache that cannot be written (a read-only home) costs time, no answer.
void write_cache(const fs::path& path, const CompiledKernel& kernel) {
  if (path.empty()) return;
  try {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    AtomicFile file(path);
    file.write(encode_cache_file(kernel));
    file.commit();
  } catch (const Error& e) {
    log_info("{}", e.message());
  }
}

}  // namespace

ResourceUse parse_resource_use(std::string_view log) {
  return {.registers = number_before(log, " registers"),
          .shared_bytes = number_before(log, " bytes smem"),
          .stack_bytes = number_before(log, " bytes stack frame"),
          .spill_bytes =
              number_before(log, " bytes spill stores") + number_before(log, " bytes spill loads")};
}

std::string encode_cache_file(const CompiledKernel& kernel) {
  CacheHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.use = kernel.use;
  header.name_hash = hash64(kernel.name);
  header.size = kernel.cubin.size();
  header.checksum = hash64(kernel.cubin);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + kernel.cubin;
}

std::optional<CompiledKernel> decode_cache_file(std::string_view bytes, std::string_view name) {
  CacheHeader header{};
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view cubin = bytes.substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.name_hash != hash64(name) ||
      header.size != cubin.size() || header.checksum != hash64(cubin))
    return std::nullopt;
  return CompiledKernel{std::string(name), std::string(cubin), header.use};
}

Jit::Jit(std::string arch, JitOptions options)
    : arch_(std::move(arch)), options_(std::move(options)) {
  if (options_.cache_folder.empty()) options_.cache_folder = default_cache_folder();
}

std::string Jit::content_name(const KernelSource& source) const {
  std::string key = arch_ + '\n';
  for (const auto& [name, value] : source.defines) key += name + '=' + value + '\n';
  for (const DeviceSource* file :
       source_closure("cuda/kernels/" + source.stem + ".cu", source.included))
    key.append(file->name).append("\n").append(file->text).append(1, '\0');
  return arch_ + '/' + source.stem + '-' + hash128_hex(key) + ".cubin";
}

fs::path Jit::cache_path(const std::string& name) const {
  if (!options_.use_cache || options_.cache_folder.empty()) return {};
  return options_.cache_folder / name;
}

const std::string& Jit::compile(const KernelSource& source, CodeStore& code) const {
  std::string name = content_name(source);
  if (const std::string* cubin = code.find(name)) return *cubin;
  const fs::path path = cache_path(name);
  std::optional<CompiledKernel> kernel = read_cache(path, name);
  if (!kernel) {
    kernel = compile_now(source, name);
    write_cache(path, *kernel);
  }
  if (options_.on_compiled) options_.on_compiled(*kernel);
  return code.put(std::move(name), std::move(kernel->cubin));
}

CompiledKernel Jit::compile_now(const KernelSource& source, const std::string& name) const {
  const Result<NvrtcApi>& found = nvrtc_api();
  if (!found) throw found.error();
  const NvrtcApi& nvrtc = *found;
  check_arch(nvrtc, arch_);
  const auto checked = [&](NvrtcStatus status, const char* call) {
    if (status != 0)
      fail(ErrorCode::kDevice, "[cuda.jit] {} of {}: {}", call, name,
           nvrtc.get_error_string(status));
  };

  const auto files = source_closure("cuda/kernels/" + source.stem + ".cu", source.included);
  std::vector<std::string> texts;
  std::vector<std::string> names;
  for (const DeviceSource* file : files) {
    texts.emplace_back(file->text);
    names.emplace_back(file->name);
  }
  std::vector<const char*> headers;
  std::vector<const char*> header_names;
  for (std::size_t i = 1; i < files.size(); ++i) {
    headers.push_back(texts[i].c_str());
    header_names.push_back(names[i].c_str());
  }
  std::vector<std::string> options = compile_options(arch_, nvrtc);
  for (const auto& [key, value] : source.defines) options.push_back("-D" + key + "=" + value);
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());

  Program program{nvrtc};
  checked(
      nvrtc.create_program(&program.handle, texts[0].c_str(), names[0].c_str(),
                           static_cast<int>(headers.size()), headers.data(), header_names.data()),
      "nvrtcCreateProgram");
  const NvrtcStatus status =
      nvrtc.compile_program(program.handle, static_cast<int>(arguments.size()), arguments.data());
  const std::string log = program.log();
  if (status != 0)
    fail(ErrorCode::kDevice, "[cuda.jit] {} for {} with NVRTC {}.{}: {}\n{}", names[0], arch_,
         nvrtc.major, nvrtc.minor, nvrtc.get_error_string(status), log);
  std::size_t size = 0;
  checked(nvrtc.get_cubin_size(program.handle, &size), "nvrtcGetCUBINSize");
  CompiledKernel kernel{name, std::string(size, '\0'), parse_resource_use(log)};
  checked(nvrtc.get_cubin(program.handle, kernel.cubin.data()), "nvrtcGetCUBIN");
  return kernel;
}

}  // namespace ingot::cuda
