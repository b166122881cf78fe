// What went wrong: the runtime's last error, and the sentence about a launch that failed.
#pragma once
#include <simt/host_api.h>

#include <string>

namespace simt {

/// Records a fault of a running kernel. Every later call fails with it, as on a GPU whose context is lost, until
/// cudaDeviceReset(). The first fault of a launch is kept, later ones are its consequences.
void record_fault(cudaError_t error, const std::string& sentence);
/// The error of a lost context, or cudaSuccess.
cudaError_t lost_context();
/// Remembers an error for cudaGetLastError() and hands it through.
cudaError_t remember(cudaError_t error);
/// The same for a launch that is refused: until this thread's next error, cudaGetErrorString() says the sentence too.
cudaError_t refuse(cudaError_t error, const std::string& sentence);
/// Keeps the first of these sentences for simt_unwritten_read().
void note_unwritten_read(const std::string& sentence);
/// Whether there is one.
bool has_unwritten_read();
/// Forgets everything.
void forget_faults();

}  // namespace simt
