#pragma once

// Read by the host compiler and by NVRTC: nothing here needs a header of either.
namespace ingot::cuda {

// The grid and block of one launch.
struct Launch {
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned block = 1;   // threads, in one dimension
  unsigned shared = 0;  // bytes of dynamic shared memory
  // May begin while the kernel before it still runs, where the GPU can: it waits for that one's end
  // itself (device/ring.cuh) before it reads or writes what that one may have written or read.
  bool early = false;
};

// Threads of the elementwise kernels, one value each.
inline constexpr int kElementThreads = 256;

constexpr unsigned blocks_for(long long items, int items_per_block) {
  return static_cast<unsigned>((items + items_per_block - 1) / items_per_block);
}

}  // namespace ingot::cuda
