// Launches: what the compiler of CUDA makes of a kernel and its arguments, done here by templates.
#pragma once
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "host_api.h"
#include "runtime.h"

namespace simt {

template <class... P>
struct BoundKernel {
  void (*kernel)(P...);
  std::tuple<std::remove_cv_t<P>...> arguments;
};

/// One thread of a kernel. Not inlined anywhere: the `const` answers of threadIdx and the like hold for one thread
/// only.
template <class... P>
__attribute__((noinline)) void run_thread(const void* bound) {
  const auto& call = *static_cast<const BoundKernel<P...>*>(bound);
  std::apply(call.kernel, call.arguments);
}

template <class... P>
cudaError_t launch(const cudaLaunchConfig_t& config, const BoundKernel<P...>& bound) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel's arguments are copied byte by byte");
  KernelCall call;
  call.kernel = reinterpret_cast<const void*>(bound.kernel);
  call.grid = config.gridDim;
  call.block = config.blockDim;
  call.dynamic_shared_bytes = config.dynamicSmemBytes;
  call.stream = config.stream;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttributeValue& value = config.attrs[i].val;
    if (config.attrs[i].id == cudaLaunchAttributeCooperative) call.cooperative = value.cooperative != 0;
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension)
      call.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z}, call.in_cluster = true;
  }
  call.body = run_thread<P...>;
  call.arguments = &bound;
  call.argument_bytes = sizeof bound;
  return cudaError_t(simt_launch(&call));
}

template <class... P, size_t... I>
BoundKernel<P...> unpack(void (*kernel)(P...), [[maybe_unused]] void** arguments, std::index_sequence<I...>) {
  return {kernel, std::tuple<std::remove_cv_t<P>...>(*static_cast<std::remove_cv_t<P>*>(arguments[I])...)};
}

template <class... P>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, size_t dynamic_shared_bytes,
                   cudaStream_t stream, bool cooperative) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = cooperative;
  return launch(cudaLaunchConfig_t{grid, block, dynamic_shared_bytes, stream, &attribute, 1},
                unpack(kernel, arguments, std::index_sequence_for<P...>{}));
}

}  // namespace simt

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  return simt::launch(*config, simt::BoundKernel<P...>{kernel, {std::forward<A>(arguments)...}});
}
template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                             size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  return simt::launch(kernel, grid, block, arguments, dynamic_shared_bytes, stream, false);
}
template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                                        size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  return simt::launch(kernel, grid, block, arguments, dynamic_shared_bytes, stream, true);
}
