#pragma once

#include "cuda/device/float.cuh"

// Copies into shared memory that run beside arithmetic, and the barriers that tell when they are
// done; before sm_90 without the copy engine. Addresses are in shared memory.
namespace ingot::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool kHasBulkCopies = true;
#else
inline constexpr bool kHasBulkCopies = false;
#endif

__device__ inline u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

__device__ inline void load_shared4(u32 address, u32* to) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ inline void load_shared2(u32 address, u32* to) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(address));
}
__device__ inline void load_shared1(u32 address, u32* to) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to[0]) : "r"(address));
}

__device__ inline void store_shared4(u32 address, const u32* from) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
__device__ inline void load_shared4(u32 address, float* to) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(address));
}
__device__ inline void store_shared4(u32 address, const float* from) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(from[0]),
               "f"(from[1]), "f"(from[2]), "f"(from[3])
               : "memory");
}
// Four matrices of 8 x 8 numbers in 16 bit, the rows of matrix i at the addresses that lanes 8 i to
// 8 i + 7 give. Lane 4 g + q gets numbers 2 q and 2 q + 1 of row g of each.
__device__ inline void load_matrices(u32 address, u32 (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
// A barrier of the first Threads threads of a block.
template <int Threads>
__device__ void sync_first_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(Threads) : "memory");
}

__device__ inline void barrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers known to the copy engine; a __syncthreads() follows.
__device__ inline void barriers_ready() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ inline void barrier_arrive(u32 barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier)
               : "memory");
}
// Returns when the phase of this parity has ended. Stops the kernel with an error instead of
// waiting for ever: that long only a bug takes.
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
#pragma unroll 1
  for (u32 polls = 0; polls < 1u << 28; ++polls) {
    u32 done;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
#endif
    if (done) return;
  }
  asm volatile("trap;");
}

// 16 bytes.
__device__ inline void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// The same, of which the last 16 - `bytes` become zero and are not read.
__device__ inline void copy16(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
// As much zero, in the same order as copies; nothing is read, but of memory that is there.
__device__ inline void zero16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 0;" ::"r"(to), "l"(from) : "memory");
}
// An arrival once this thread's copies up to here are done.
__device__ inline void copies_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// An arrival that makes the phase wait for so many bytes too.
__device__ inline void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(
          barrier),
      "r"(bytes)
      : "memory");
}
// A multiple of 16 bytes, between addresses that are such.
__device__ inline void copy_bulk(u32 to, const void* from, u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], "
      "%2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
// For what is read once, and for what blocks read after each other.
__device__ inline u64 policy_of(bool once) {
  u64 first;
  u64 normal;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
  return once ? first : normal;
}
#endif

// Launches with Launch::early begin while the kernel before them still runs: this waits until it
// has ended and what it wrote is here.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// From here on the next kernel, if it was launched so, may begin where there is room.
__device__ inline void allow_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ingot::cuda
