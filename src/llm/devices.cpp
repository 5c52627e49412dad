#include "llm/devices.h"

#include "base/error.h"
#include "cpu/description.h"
#include "cpu/device.h"

#include <charconv>
#include <nlohmann/json.hpp>
#ifdef INGOT_HAVE_CUDA
#include "cuda/device.h"
#endif

namespace ingot {

namespace {

#ifdef INGOT_HAVE_CUDA

// Why no GPU can be used, or "" when one can.
std::string gpu_trouble(const cuda::CudaDescription& d) {
  if (!d.driver_found) return d.driver;
  for (const cuda::GpuDescription& gpu : d.gpus)
    if (!gpu.target.empty()) return {};
  return d.gpus.empty() ? "the driver shows no GPU" : "no GPU of compute capability 8.0 or above";
}

std::unique_ptr<Device> open_gpu(int ordinal) {
  return cuda::make_cuda_device(ordinal);
}
std::unique_ptr<Device> open_gpu_target(std::string_view target) {
  return cuda::make_cuda_target(target);
}

int first_usable_gpu() {
  const cuda::CudaDescription d = cuda::describe_cuda();
  if (!gpu_trouble(d).empty()) return -1;
  for (const cuda::GpuDescription& gpu : d.gpus)
    if (!gpu.target.empty()) return gpu.ordinal;
  return -1;
}

void report_gpus(std::vector<DeviceReport>& reports) {
  const cuda::CudaDescription d = cuda::describe_cuda();
  const std::string trouble = gpu_trouble(d);
  if (d.gpus.empty())
    reports.push_back({.name = "cuda", .description = "NVIDIA GPU", .reason = trouble});
  for (const cuda::GpuDescription& gpu : d.gpus) {
    DeviceReport r{.name = "cuda:" + std::to_string(gpu.ordinal), .usable = !gpu.target.empty()};
    r.description =
        fmt::format("{}, {}, {:.1f} GiB", gpu.name, r.usable ? gpu.target : "not supported",
                    static_cast<double>(gpu.total_memory) / (1 << 30));
    if (!r.usable) r.reason = "compute capability below 8.0";
    reports.push_back(std::move(r));
  }
}

Json gpu_details() {
  const cuda::CudaDescription d = cuda::describe_cuda();
  const cuda::NvrtcDescription nvrtc = cuda::describe_nvrtc();
  Json gpus = Json::array();
  for (const cuda::GpuDescription& gpu : d.gpus)
    gpus.push_back({{"ordinal", gpu.ordinal},
                    {"name", gpu.name},
                    {"target", gpu.target},
                    {"total_memory", gpu.total_memory}});
  return {{"driver", d.driver},
          {"driver_found", d.driver_found},
          {"nvrtc", nvrtc.text},
          {"nvrtc_found", nvrtc.found},
          {"gpus", gpus}};
}

#else

constexpr std::string_view kLeftOut =
    "this Ingot was built without the CUDA backend (INGOT_CUDA=OFF)";

std::unique_ptr<Device> open_gpu(int) {
  fail(ErrorCode::kDevice, "[device.cuda] {}", kLeftOut);
}
std::unique_ptr<Device> open_gpu_target(std::string_view) {
  fail(ErrorCode::kUsage, "[device.target] {}", kLeftOut);
}
int first_usable_gpu() {
  return -1;
}
void report_gpus(std::vector<DeviceReport>& reports) {
  reports.push_back({.name = "cuda", .description = "NVIDIA GPU", .reason = std::string(kLeftOut)});
}
Json gpu_details() {
  return {{"driver", kLeftOut}, {"driver_found", false}, {"gpus", Json::array()}};
}

#endif

}  // namespace

std::unique_ptr<Device> open_device(std::string_view name, const DeviceThreads& threads,
                                    bool memory_present) {
  const CpuOptions cpu{
      .threads = threads.run, .workers = threads.pack, .present = memory_present, .tier = {}};
  if (name == "cpu") return make_cpu_device(cpu);
  if (name == "auto") {
    const int gpu = first_usable_gpu();
    return gpu >= 0 ? open_gpu(gpu) : make_cpu_device(cpu);
  }
  if (name == "cuda") return open_gpu(0);
  if (name.starts_with("cuda:")) {
    const std::string_view digits = name.substr(5);
    int ordinal = -1;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0)
      return open_gpu(ordinal);
  }
  fail(ErrorCode::kUsage, "[device] {}: wanted auto, cpu, cuda or cuda:N", name);
}

std::unique_ptr<Device> open_target(std::string_view target, const DeviceThreads& threads) {
  if (target == "cpu") return make_cpu_device({.threads = threads.run, .workers = threads.pack});
  return open_gpu_target(target);
}

std::vector<DeviceReport> report_devices() {
  std::vector<DeviceReport> reports;
  report_gpus(reports);
  const cpu::CpuDescription d = cpu::describe_cpu();
  reports.push_back({.name = "cpu", .usable = true});
  reports.back().description = fmt::format("{}, {} threads, {}", d.model, d.threads, d.tier);
  reports.back().reason = d.reason;
  const int gpu = first_usable_gpu();
  const std::string chosen = gpu >= 0 ? "cuda:" + std::to_string(gpu) : "cpu";
  for (DeviceReport& r : reports) r.chosen = r.name == chosen;
  return reports;
}

Json device_details() {
  const cpu::CpuDescription d = cpu::describe_cpu();
  Json devices = Json::array();
  for (const DeviceReport& r : report_devices())
    devices.push_back({{"name", r.name},
                       {"usable", r.usable},
                       {"chosen", r.chosen},
                       {"description", r.description},
                       {"reason", r.reason}});
  Json cpu = {{"model", d.model},     {"tier", d.tier},     {"tiers", d.tiers},
              {"reason", d.reason},   {"online", d.online}, {"cores", d.cores},
              {"sockets", d.sockets}, {"quota", d.quota},   {"threads", d.threads}};
  return {{"devices", devices}, {"cpu", cpu}, {"cuda", gpu_details()}};
}

}  // namespace ingot
