#include "formats/shards.h"
#include "formats/torch_pth.h"

namespace ingot {

namespace fs = std::filesystem;

namespace {

constexpr ShardNames kNames = {"pytorch_model.bin", "pytorch_model.bin.index.json"};

}  // namespace

std::vector<fs::path> torch_files(const fs::path& folder) {
  return shard_files(folder, kNames);
}

std::unique_ptr<TensorSource> open_torch_folder(const fs::path& folder) {
  const fs::path whole = folder / kNames.whole;
  return fs::exists(whole) ? open_torch_pth(whole)
                           : open_shards(folder / kNames.index, open_torch_pth);
}

}  // namespace ingot
