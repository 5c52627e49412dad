#include "cpu/description.h"

#include "base/error.h"
#include "base/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace ingot::cpu {

namespace {

constexpr Tier kTiers[] = {Tier::kGeneric, Tier::kAvx2, Tier::kAvx512, Tier::kAvx512Vnni,
                           Tier::kAvx512Bf16};
constexpr int kMostCpus = 1 << 16;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string model_name(const std::string& root) {
  std::ifstream in(root + "proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos)
      return line.substr(std::min(line.size(), colon + 2));
  }
  return "unknown processor";
}

// cgroup v2's cpu.max, else v1's two files; see usable_cpus.
double quota_of(const std::string& root) {
  std::istringstream v2(first_line(root + "sys/fs/cgroup/cpu.max"));
  std::string text;
  double quota = -1;
  double period = 0;
  if (v2 >> text >> period) {
    if (text != "max") std::istringstream(text) >> quota;
  } else {
    std::istringstream(first_line(root + "sys/fs/cgroup/cpu/cpu.cfs_quota_us")) >> quota;
    std::istringstream(first_line(root + "sys/fs/cgroup/cpu/cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

void describe_topology(const std::string& root, CpuDescription& cpu) {
  const std::string base = root + "sys/devices/system/cpu/";
  std::set<std::string> cores;
  std::set<std::string> sockets;
  const std::vector<int> online = parse_cpu_list(first_line(base + "online"));
  for (const int number : online) {
    const std::string topology = base + "cpu" + std::to_string(number) + "/topology/";
    const std::string socket = first_line(topology + "physical_package_id");
    const std::string core = first_line(topology + "core_id");
    sockets.insert(socket);
    // Without topology every CPU is a core of its own.
    cores.insert(core.empty() ? "cpu" + std::to_string(number) : socket + ":" + core);
  }
  cpu.online = std::max<int>(1, static_cast<int>(online.size()));
  cpu.cores = std::max<int>(1, static_cast<int>(cores.size()));
  cpu.sockets = std::max<int>(1, static_cast<int>(sockets.size()));
}

void describe_nodes(const std::string& root, CpuDescription& cpu) {
  const std::string base = root + "sys/devices/system/node/";
  for (const int number : parse_cpu_list(first_line(base + "online")))
    cpu.nodes.push_back(
        {number, parse_cpu_list(first_line(base + "node" + std::to_string(number) + "/cpulist"))});
}

std::string reason_of(Tier used) {
  const char* wanted = std::getenv("INGOT_CPU");
  if (wanted == nullptr || *wanted == '\0')
    return used == usable_tier() ? "the best this processor offers"
                                 : fmt::format("the fastest on this processor, which also has {}",
                                               tier_name(usable_tier()));
  if (tier_name(used) == wanted) return fmt::format("INGOT_CPU={}", wanted);
  return fmt::format("INGOT_CPU={} asks for more than this processor offers", wanted);
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc()) break;
    int last = first;
    if (next < end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc()) break;
      next = range.ptr;
    }
    if (first < 0 || last < first || last >= kMostCpus) break;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (next == end || *next != ',') break;
    at = next + 1;
  }
  return cpus;
}

Tier tier_under(std::string_view name) {
  if (name.empty()) return best_tier();
  const auto* it = std::find_if(std::begin(kTiers), std::end(kTiers),
                                [&](Tier tier) { return tier_name(tier) == name; });
  if (it == std::end(kTiers)) {
    std::string known;
    for (const Tier tier : kTiers) known += " " + std::string(tier_name(tier));
    fail(ErrorCode::kUsage, "[cpu.tier] unknown tier {}, known:{}", name, known);
  }
  return std::min(*it, usable_tier());
}

CpuDescription describe_cpu(const std::string& root) {
  CpuDescription cpu;
  cpu.model = model_name(root);
  for (const Tier tier : kTiers)
    if (tier <= detected_tier()) cpu.tiers.emplace_back(tier_name(tier));
  cpu.tier = tier_name(best_tier());
  cpu.reason = reason_of(best_tier());
  cpu.quota = quota_of(root);
  cpu.threads = usable_cpus(root);
  describe_topology(root, cpu);
  describe_nodes(root, cpu);
  return cpu;
}

}  // namespace ingot::cpu
