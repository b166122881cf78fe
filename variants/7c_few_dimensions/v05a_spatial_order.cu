// v05a: points of one to three dimensions in the order of a Hilbert curve, sorted once per upload
// (boxes/spatial_order.cuh). v05 keeps the order of the rows, in which neighbouring threads have points from anywhere:
// each warp meets all clusters, and nothing is known of a group of points that is not known of all. Here 128
// neighbouring points lie in a small box, which the next rungs use. Labels return to the order of the rows when they
// are downloaded. The kernels are those of v05.
#include "../common/boxes/spatial_order.cuh"
#include "../common/update/block_private.cuh"

namespace {
using namespace ladder;

template <class T>
__global__ void assign_kernel(const T* x, const T* c, int32_t* label, int n, int k, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest = std::numeric_limits<T>::infinity();
  int best = 0;
  for (int j = 0; j < k; ++j) {
    T distance = 0;
    for (int f = 0; f < d; ++f) {
      const T diff = x[size_t(f) * n + i] - c[size_t(j) * d + f];
      distance += diff * diff;
    }
    if (distance < nearest) nearest = distance, best = j;  // <, not <=: on a tie the lowest index stays
  }
  label[i] = best;
}

template <class T>
struct Workspace {
  Rows<T> rows;
  SpatialOrder order;
  Sums sums;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_features(s);
  prepare_spatial(s);
}

template <class T>
void assign(State<T>& s) {
  launch(assign_kernel<T>, blocks(s.n, 256), 256, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_dimensions(p);
  return why.empty() ? refuse_update_shared(p, device, axes) : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload_spatial<T>,
                                         .restart = restart_rows<T>,
                                         .assign = assign<T>,
                                         .update = update_shared<T, Layout::features>,
                                         .download = download_spatial<T>};
}  // namespace

LADDER_VARIANT(.id = "v05a_spatial_order", .base = "v05_soa",
               .idea = "points of one to three dimensions sorted along a Hilbert curve, once per upload",
               .expect =
                   "assign as v05. The update is slower where K is small: threads of a warp add to the same sums in "
                   "shared memory, one after another. The order of 500,000 points in a plane costs seven short "
                   "operations, some 25 us of an upload of 8 MB (150 us). A larger step: a sort has a range, keys, "
                   "counts, prefix sums and a move",
               .shows = "upload", .counter = "sectors_per_load", .source = "Hilbert 1891; Skilling 2004",
               .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
