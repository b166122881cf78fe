// Launches and dynamic shared memory, for a GPU and for the CPU device alike.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "contract.hpp"

namespace ladder {

namespace detail {

[[noreturn]] inline void refuse_launch(cudaError_t status, const char* kernel, const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  char how[192];
  std::snprintf(how, sizeof how, "grid (%u, %u, %u), block (%u, %u, %u) and %zu bytes of dynamic shared memory", grid.x,
                grid.y, grid.z, block.x, block.y, block.z, config.dynamicSmemBytes);
  throw Error(std::string(cudaGetErrorString(status)) + "; kernel " + kernel + " launched with " + how);
}

template <class... P>
void launch(void (*kernel)(P...), cudaLaunchConfig_t config, std::type_identity_t<P>... args) {
  // More than 48 KB needs this attribute; the value set last is in force.
  constexpr size_t without_asking = 48 << 10;
  cudaError_t status = cudaSuccess;
  if (config.dynamicSmemBytes > without_asking) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(config.dynamicSmemBytes));
  }
  if (status == cudaSuccess) status = cudaLaunchKernelEx(&config, kernel, args...);
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which a later check would take for its own
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) != cudaSuccess || !name) name = "without a name";
  refuse_launch(status, name, config);
}

/// Compares the arguments of a launch with the kernel's parameters, so that a launch with wrong arguments gives one
/// readable compiler error.
template <class Parameter, class Argument>
concept becomes = requires(Argument&& argument) {
  static_cast<Parameter>(std::forward<Argument>(argument));
};
template <class Kernel, class... A>
struct Arguments;
template <class... P, class... A>
struct Arguments<void (*)(P...), A...> {
  static constexpr bool as_many = sizeof...(P) == sizeof...(A);
  static constexpr bool match = [] {
    if constexpr (as_many)
      return (becomes<P, A> && ...);
    else
      return true;  // one error is enough
  }();
};

/// Whether the first five arguments can be kernel, grid, block, shared bytes and stream; a literal 0 may be a stream.
template <class Kernel, class Grid = void, class Block = void, class Bytes = void, class Stream = void, class... A>
inline constexpr bool begins_as_a_launch =
    std::is_pointer_v<std::decay_t<Kernel>>&& std::is_convertible_v<Grid, dim3>&& std::is_convertible_v<Block, dim3>&&
        std::is_convertible_v<Bytes, size_t> &&
    !std::is_pointer_v<std::decay_t<Bytes>> &&
    (std::is_convertible_v<Stream, cudaStream_t> || std::is_integral_v<std::decay_t<Stream>>);

inline cudaLaunchConfig_t configuration(dim3 grid, dim3 block, size_t dynamic_shared_bytes, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_shared_bytes;
  config.stream = stream;
  return config;
}

template <class... P, class... A>
void launch_with(void (*kernel)(P...), const cudaLaunchConfig_t& config, A&&... args) {
  using Given = Arguments<void (*)(P...), A...>;
  static_assert(
      Given::as_many,
      "launch(): after the stream come the kernel's arguments, one for each of its parameters; here P are its "
      "parameters and A the arguments given");
  static_assert(Given::match,
                "launch(): an argument cannot become the kernel's parameter; here P are its parameters and A the "
                "arguments given, in the same order");
  if constexpr (Given::as_many && Given::match) launch(kernel, config, static_cast<P>(std::forward<A>(args))...);
}

}  // namespace detail

/// Launches `kernel` in `stream` with `grid` blocks of `block` threads and `dynamic_shared_bytes` of shared memory for
/// each block; the arguments are converted to the kernel's parameter types. Throws Error if the launch is refused; on
/// the CPU device also if the kernel fails, as it has ended when this returns.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic_shared_bytes, cudaStream_t stream,
            A&&... args) {
  detail::launch_with(kernel, detail::configuration(grid, block, dynamic_shared_bytes, stream),
                      std::forward<A>(args)...);
}
/// The same for a kernel whose blocks wait for each other (cooperative_groups::this_grid().sync()): all of them must
/// fit on the device at once.
template <class... P, class... A>
void launch_cooperative(void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic_shared_bytes, cudaStream_t stream,
                        A&&... args) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = detail::configuration(grid, block, dynamic_shared_bytes, stream);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  detail::launch_with(kernel, config, std::forward<A>(args)...);
}
/// Any other first five arguments: a compiler error that says what is expected.
template <class... A>
void launch(A&&...) requires(!detail::begins_as_a_launch<A...>) {
  static_assert(
      sizeof...(A) > 100,
      "launch(kernel, grid, block, shared bytes, stream, arguments...): one of the first five is missing or is "
      "not what stands here; A are those given");
}

/// The dynamic shared memory of the launch, 16-byte aligned; every call gives the same memory.
template <class T>
__device__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char ladder_dynamic_shared[];
  return reinterpret_cast<T*>(ladder_dynamic_shared);
#else
  return static_cast<T*>(simt_dynamic_shared());
#endif
}

}  // namespace ladder
