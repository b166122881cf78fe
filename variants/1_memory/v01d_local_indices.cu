// v01d: the fewest index computations, source 002's revision 1.3. v01c multiplies an index by D for each coordinate
// that it reads from shared memory, and with D = 2 doubles neighbouring lanes read 4 words apart: two lanes meet in
// each bank. Here points lie feature by feature, in global memory as in shared memory: the thread keeps its position in
// a register once, and both inner pointers advance by a constant. Neighbouring lanes read neighbouring words: no bank
// conflict. A thread copies the coordinates that it will read, so that no barrier is needed. The inner loop counts
// features: for one that ends at a pointer nvcc 13 does not unroll the loads of centroids, but loads them one after
// another into the same uniform registers. (The source also moved N and K to constant memory to save registers; on
// today's GPUs all kernel arguments lie there. It also wrote each difference of two coordinates twice, in place of
// keeping it, to save registers in all revisions: nvcc 13 makes the same instructions of both.)
#include "../../harness/contract/lesson.hpp"
#include "../common/lloyd/feature_major.cuh"

namespace {
using namespace ladder;

constexpr size_t constant_bytes = 64 << 10;
__constant__ __align__(16) unsigned char constant_centroids[constant_bytes];  // k x d of T, row-major

constexpr int block = 256;

template <class T>
__global__ void assign_kernel(const T* x, int32_t* label, int n, int k, int d) {
  const int t = threadIdx.x, i = blockIdx.x * block + t;
  if (i >= n) return;
  T* point = dynamic_shared<T>() + t;  // d x block: feature f of this thread's point is point[f * block]
  for (int f = 0; f < d; ++f) point[f * block] = x[size_t(f) * n + i];
  const T* c = reinterpret_cast<const T*>(constant_centroids);
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    const T* coordinate = point;
    for (int f = 0; f < d; ++f, ++c, coordinate += block) {
      const T diff = *coordinate - *c;
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;
  }
  label[i] = best;
}

template <class T>
struct Workspace {
  Rows<T> rows;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_device(s);
  s.ws.rows.points = s.template device<T>(size_t(s.n) * s.d);
}

template <class T>
void assign(State<T>& s) {
  const size_t bytes = size_t(s.k) * s.d * sizeof(T);
  check(cudaMemcpyToSymbolAsync(constant_centroids, s.c, bytes, 0, cudaMemcpyDeviceToDevice, s.stream),
        "copying the centroids to constant memory");
  set_carveout(assign_kernel<T>, s.axis("carveout"));
  launch(assign_kernel<T>, blocks(s.n, block), block, block * s.d * sizeof(T), s.stream, s.x, s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) {
  const size_t bytes = size_t(p.k) * p.d * p.element_bytes, shared = size_t(block) * p.d * p.element_bytes;
  if (bytes > constant_bytes) {
    return "centroids need " + std::to_string(bytes) + " bytes, constant memory holds " +
           std::to_string(constant_bytes);
  }
  if (shared <= device.shared_bytes_optin) return "";
  return "256 points of D = " + std::to_string(p.d) + " need " + std::to_string(shared) +
         " bytes of shared memory, a block has " + std::to_string(device.shared_bytes_optin);
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_features<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_on_host<T>,
                                         .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "v01d_local_indices", .base = "v01c_shared_points",
               .idea = "indices kept in registers, points feature by feature",
               .expect =
                   "C2075: +1.5 %; today's compiler already replaces the multiplications by additions, so the gain is "
                   "in bank conflicts: a few per cent at D = 2, more where D is a multiple of 16",
               .shows = "assign", .counter = "bank_conflicts_load", .source = "002 r1.3",
               .axes = {{"carveout", {-1, 0, 25, 50, 75, 100}, -1}}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)

LADDER_LESSON(.predict = {{"load_requests", "N * D / 32"},
                          {"sectors_per_load", "B"},
                          {"dram_bytes", "N * D * B"},
                          {"multiply_adds", "N * K * D"},
                          {"additions", "multiply_adds"},
                          {"shared_bytes", "reserved + 256 * D * B"},
                          {"bank_conflicts_load", "0"}},
              .ask =
                  "Two doubles per point, 32 lanes, 32 banks of 4 bytes. Which lanes met in a bank before, and "
                  "why do none now?",
              .answer =
                  "Point by point, lane i reads the words 4 i and 4 i + 1: lanes 8 apart meet in one bank. "
                  "Feature by feature it reads 2 i and 2 i + 1: 16 lanes take all 32 banks once, which is all "
                  "that a turn of 128 bytes can be.")
