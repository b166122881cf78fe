// The accused: a process that loads a variant's module and does what its judge asks (mailbox.hpp), until that ends.
#pragma once
#include <functional>

#include "contract/contract.hpp"
#include "protocol/request.hpp"

namespace ladder::apart {

/// The two descriptors are those that Accused::start passes. `device_of`: makes the request's device current.
int serve(int mailbox, int request, const std::function<Device(const Request&)>& device_of);

}  // namespace ladder::apart
