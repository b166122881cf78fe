// v31: points are worked on while they arrive. The base's upload is a copy, and then 4 ms of work on what it brought:
// halves, directions, short rows, the range of the sums. All of that is done point by point, but for what must be known
// before the first: where points are looked at from, in which unit, along which directions, and how many. It is found
// from a sample, which comes first; then the points come in pieces, and each piece is worked on while the copy engine
// brings the next (overlap/chunked_upload.cuh). Where a point that the sample did not have leaves its unit, all is done
// again as the base does it. Whether one did, the host hears last; by then it has the initial centroids in page-locked
// memory.
//
// for cuda: 90a
#include "../common/overlap/overlapped_phases.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilteredState<T> {
  DistanceBounds bounds;
  ClusterOrder order;
  ChunkedUpload<T> chunks;
};

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_overlapped<T>,
                                         .upload = upload_overlapped<T>,
                                         .restart = restart_overlapped<T>,
                                         .assign = assign_ordered<T>,
                                         .update = update_ordered<T>,
                                         .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v34_overlapped_upload", .base = "v32_segmented_sums",
        .idea = "halves, directions and short rows of each piece of the points while the next piece is copied",
        .expect =
            "v27's upload, which the base has, too, takes 13.1 ms at kmcuda on an H200; 8.9 of them are the copy. The "
            "sample is 7 of 490 MB, and the last of 12 pieces 0.2 ms of work: 9.5 ms. Whole runs gain that and most of "
            "what the initial centroids took, 8 MB from pageable memory; iterations take the same. A new algorithm: "
            "the view and the directions are a sample's, believed until a point says otherwise",
        .shows = "end_to_end",
        .source = "this project; CUDA C++ Best Practices Guide, staged concurrent copy and execute",
        .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"loose", {0, 3, 10, 30, 60}, 10},
                 {"share", {2, 3, 4, 6, 8, 12}, 6},
                 {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12}},
        .prunes = true, .refuse = refuse_filtered, .f32 = phases<float>, .f64 = phases<double>)
