// CUDA's runtime for a plain C++ compiler: the text of a .cu file compiles with g++ and runs on the CPU device.
#pragma once
#include <simt.h>
#include <simt/qualifiers.h>
// The parts below rely on the ones above.
#include <simt/atomics.h>
#include <simt/host_api.h>
#include <simt/intrinsics.h>
#include <simt/launch.h>
#include <simt/runtime.h>
#include <simt/synchronise.h>
#include <simt/vector_types.h>
