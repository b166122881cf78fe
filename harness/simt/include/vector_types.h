// CUDA has this header beside cuda_runtime.h; here it is the same vector types alone.
#pragma once
#include <simt/vector_types.h>
