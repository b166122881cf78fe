// Device memory for the tests of the CPU device: vectors up and down.
#pragma once
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "contract/launch.cuh"

/// `count` elements on the device, given back at the end of the scope; zeros, or a copy of a vector.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : OnDevice(std::vector<T>(count)) {}
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    ladder::check(cudaMalloc(&data_, count_ * sizeof(T)), "allocating");
    ladder::check(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "uploading");
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  operator T*() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    ladder::check(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "downloading");
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};
