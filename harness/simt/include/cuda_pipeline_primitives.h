// Asynchronous copies from global to shared memory: see simt/async_copy.h.
#pragma once
#include <cuda_runtime.h>
#include <simt/async_copy.h>
