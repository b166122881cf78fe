// Device memory: one reserved range of addresses, far from the host's, with red zones between allocations.
#pragma once
#include <atomic>
#include <cstddef>
#include <string>

#ifdef SIMT_CHECKED
#include "checked/races.hpp"
#endif

namespace simt::memory {

/// A fresh allocation holds this word over and over: a NaN as float, as double and as half, 2146754221 as int.
inline constexpr unsigned nonsense = 0x7ff4dead;
/// Fills with `nonsense`; 4-byte aligned.
void fill_with_nonsense(void* address, size_t bytes);

/// The first of these bytes of device memory that still hold it, two words of it in a row; null where none do, and of
/// other memory. A single word may be a legitimate value.
const void* unwritten(const void* address, size_t bytes);

/// Null where the memory of the device is used up.
void* allocate(size_t bytes, int device);
/// False where no allocation starts at `address`.
bool release(void* address);
void release_all();

/// Of one device: devices share the memory of the host.
size_t total_bytes();
size_t free_bytes(int device);
/// The most that was allocated at once, since the start or since the last call with `reset`.
size_t peak_bytes(int device, bool reset);
/// The device of an address in a live allocation, else -1.
int device_of(const void* address);

/// The device's addresses; no address from `top` on was ever given out.
struct Bounds {
  char *begin = nullptr, *end = nullptr;
  std::atomic<char*> top = nullptr;
};
inline constinit Bounds bounds;
/// Whether the address belongs to the device, allocated or not.
inline bool is_device(const void* address) { return address >= bounds.begin && address < bounds.end; }
/// Whether all the bytes lie in one live allocation (or in a symbol that was named to the runtime).
bool is_allocated(const void* address, size_t bytes);
#ifdef SIMT_CHECKED
/// What races.hpp keeps of each word of device memory, for as many of them as a part of the host's memory can hold.
inline constinit races::Cell* cells = nullptr;
inline constinit size_t watched_bytes = 0;
/// The cells of a variable that was named to the runtime; null where the address is in none.
races::Cell* variable_cells(const void* address);
/// Where all of the above start anew.
void forget_accesses();
#endif
/// Where an address lies that is in no allocation: "4 bytes past the end of an allocation of 400 bytes".
std::string describe(const void* address);
/// The live allocation that holds the address: "a device allocation of 400 bytes (from its byte 8 on)".
std::string describe_allocation(const void* address);

/// Constant memory of the loaded modules, and __device__ variables that the host has named to the runtime.
void add_constants(const void* begin, const void* end);
void remove_constants(const void* begin);
bool is_constant(const void* address, size_t bytes);
void add_variable(const void* begin, size_t bytes);
bool is_variable(const void* address, size_t bytes);

}  // namespace simt::memory
