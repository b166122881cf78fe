// v38a: the assignment in whole numbers. Short rows decide little where data vary in all directions, as isotropic ones
// do: there the base's rows overflow, and the product of halves in all features is done after all. Here all features
// are multiplied once, as signed bytes with one scale per row and per centroid (integers/byte_rows.cuh): tensor cores
// multiply bytes twice as fast as halves. The first assignment, which has no guesses, is that in halves. A byte loses
// 16 times as much as a half, but its sums are exact, so that the bound of a pair is the Cauchy-Schwarz inequality
// alone, without an assumption about the hardware. The threshold is the exact distance to the guess, as in the base; so
// is what becomes of candidates.
//
// for cuda: 90a
#include "../common/integers/byte_filter.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : FilterState<T> {
  ByteRows bytes;
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_listed_rows(s, true);
  prepare_incremental(s);
  prepare_order(s, 0);
  prepare_filter_lists(s);
  prepare_bytes(s);
  s.ws.filter.width = s.ws.bytes.width;
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_rows(s);
  quantize_full_dimension(s);
  choose_format(s, s.x);
  write_byte_points(s);
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  assign_by_bytes(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes&) { return refuse_full_dimension(p, device); }

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart_filter<T>,
                                         .assign = assign<T>,
                                         .update = update_sorted<T>,
                                         .download = download_filter<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v38a_integers", .base = "v38_first_guess",
        .idea = "products of signed bytes in all features: exact sums, so the bound assumes nothing of the hardware",
        .expect =
            "kmcuda_isotropic on an H200: 4,688 groups of 64 points, 32 tiles of 160 centroids, 13 steps of 32 "
            "features "
            "at 80 cycles each are 1.18 million cycles of 132 multiprocessors: 0.60 ms at 1,980 MHz, 0.67 at 1,755. "
            "The "
            "product of halves, 26 steps of 84 cycles for 168 columns, takes 2.33 million. The epilogue's 460 "
            "instructions were to hide behind the other consumer's 1,040 cycles. Distances to the guesses 0.14 ms, "
            "candidates 0.25 to 0.08 ms: 0.9 to 1.1 ms in all. Measured on an H100: late iterations 1.67 ms in place "
            "of "
            "the base's 2.90, and a solve of 18.4 ms, before 30.0; at kmcuda 28.4, before 49.3. It is half of what was "
            "hoped for: nearly each tile of a warp has a row that reaches a column, if only its guess, and finding "
            "which takes the epilogue beyond the other product. A new algorithm: rows are bytes, and pairs are decided "
            "in the epilogue of their product",
        .shows = "assign", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true,
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
