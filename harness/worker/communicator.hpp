// The communicators that a worker gives to variants with several GPUs: NCCL on GPUs, copies through host memory on the
// CPU device.
#pragma once
#include <memory>

#include "contract/contract.hpp"
#include "worker/ranks.hpp"

namespace ladder {

/// Completes a device with company: sets `ranks`, `rank` and `communicator`, or `no_communicator` where the build has
/// none for it. The caller keeps the returned object for as long as the device is used; null where there is one GPU.
/// `ranks`: null where this process is the only one.
std::unique_ptr<Communicator> join_devices(Device& device, Ranks* ranks);

}  // namespace ladder
