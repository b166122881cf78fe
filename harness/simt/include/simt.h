// What the CPU device says beyond the CUDA runtime API.
#pragma once

extern "C" {
/// One sentence about the last failed launch: what happened, in which kernel, block and thread, and in a checked build
/// at which source line. An empty string when no launch has failed since the start or the last cudaDeviceReset().
/// cudaGetErrorString() gives the same sentence for the error that the launch left behind.
const char* simt_last_fault();

/// In a checked build: where a kernel first read shared memory that no thread of its block had written, since the last
/// cudaDeviceReset(). It is no fault by itself, since the value may go unused. An empty string where there was none.
const char* simt_unwritten_read();

/// From the next launch on, threads of a block run in another order between barriers, and blocks in another order,
/// drawn anew in each launch; the same each time for the same seed. 0: in their own order. Gives the seed before. Also
/// SIMT_SHUFFLE=SEED; at the start 1 in a checked build, else 0.
unsigned long long simt_set_shuffle(unsigned long long seed);

/// Whether a checked build fails a launch in which two threads touch the same bytes, at least one writing and not both
/// atomically, with nothing that orders them. On at the start; SIMT_RACES=0 turns it off. Gives what it was.
int simt_set_races(int on);

/// Late streams: work in a stream other than the legacy one runs when something waits for it, not before; copies from
/// pageable memory take their source at the call, as CUDA does. Gives what it was. Also SIMT_LATE_STREAMS=0 or 1; on at
/// the start in a checked build.
int simt_set_late_streams(int on);

/// How many devices there are, from now on; gives what it was. Also SIMT_DEVICES=N. All are alike, and any of them may
/// touch the memory of all.
int simt_set_devices(int count);

/// The most device memory that was allocated at once on `device`, in bytes, since the start or the last reset.
unsigned long long simt_peak_bytes(int device, int reset);

/// From here on launches of modules that were compiled to be counted are: their warp instructions, by place in the code.
/// The second writes what was counted since to a file, as lines of words with tabs between them (README.md has their
/// order), and ends it. Gives 0, or -1 where the file cannot be written.
void simt_start_counting();
int simt_stop_counting(const char* path);

/// 1 where this library was built with AddressSanitizer and so checks each access of a kernel, else 0.
int simt_is_checked();
}
