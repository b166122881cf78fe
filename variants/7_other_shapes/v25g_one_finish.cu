// v25g: one small kernel between two large ones. Around v25f's kernel the host launches four others, which clear sums
// and counts, turn centroids into halves, and divide: 20 us of an iteration's 1,000, most of them gaps. Here one kernel
// after the large one does all of it: it takes the sums, stores the means with the halves and bounds that the next
// iteration needs, and leaves zeros. A restart does the same for the first centroids.
//
// for cuda: 90a
#include "../common/few_clusters/one_pass.cuh"
#include "../common/lloyd/phases.cuh"

namespace {
using namespace ladder;

template <class T>
using Workspace = BulkRows<T>;

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare_bulk_rows<T, Workspace<T>>,
                                         .upload = upload_bulk_rows<T, Workspace<T>>,
                                         .restart = restart_passes<T, Workspace<T>>,
                                         .iterate = pass_over_points<T, Workspace<T>>,
                                         .download = download_refined<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v25g_one_finish", .base = "v25f_pair_difference",
        .idea = "means, their halves and zeros for the next sums in one launch in place of four",
        .expect =
            "v25f's iteration takes 985 us on blobs30, some 20 of them outside its kernel: two clearings, 5.6 us for "
            "the halves, 2.6 us for the division, gaps of 1 to 2 us. One kernel of 6 us and one gap stay: 10 us less, "
            "1 %. The block that ends last could do the same at the end of the large kernel, without any launch: "
            "tried, and slower (1,072 us), for a reason that was not found",
        .shows = "iteration", .source = "this project",
        .arithmetic = {.form = Arithmetic::Form::exact, .sum_roundoff = 0, .operands = "fp16"},
        .refuse = refuse_few_clusters<Sizes>, .f32 = phases<float>, .f64 = phases<double>)
