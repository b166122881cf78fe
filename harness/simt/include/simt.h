// What the CPU device says beyond the CUDA runtime API.
#pragma once

extern "C" {
/// One sentence about the last failed launch: what happened, in which kernel, block and thread, and in a checked build
/// at which source line. An empty string when no launch has failed since the start or the last cudaDeviceReset().
/// cudaGetErrorString() gives the same sentence for the error that the launch left behind.
const char* simt_last_fault();

/// 1 where this library was built with AddressSanitizer and so checks each access of a kernel, else 0.
int simt_is_checked();
}
