#pragma once

// Read by the host compiler and by NVRTC: nothing here needs a header of either.
namespace ingot::cuda {

// The grid and block of one launch.
struct Launch {
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned block = 1;  // threads, in one dimension
};

// Threads of the elementwise kernels, one value each.
inline constexpr int kElementThreads = 256;

constexpr unsigned blocks_for(long long items, int items_per_block) {
  return static_cast<unsigned>((items + items_per_block - 1) / items_per_block);
}

}  // namespace ingot::cuda
