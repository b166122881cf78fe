// CUDA has this header beside cuda_runtime.h; here one holds all.
#pragma once
#include <cuda_runtime.h>
