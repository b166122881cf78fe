// v38a: the assignment in whole numbers. Short rows decide little where data vary in all directions, as isotropic ones
// do: there the base's rows overflow, and the product of halves in all features is done after all. Here all features
// are multiplied once, as signed bytes with one scale per row and per centroid (integers/byte_rows.cuh): tensor cores
// multiply bytes twice as fast as halves. A byte loses 16 times as much as a half, but its sums are exact, so that the
// bound of a pair is the Cauchy-Schwarz inequality alone, without an assumption about the hardware. The threshold is
// the exact distance to the guess, as in the base; so is what becomes of candidates.
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
  assign_by_bytes(s, StoreLabel{s.label});
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
            "not measured yet. On kmcuda_isotropic, 300,000 x 5,000 pairs of 448 bytes are 672 G multiply-adds, 0.68 "
            "ms at the H200's dense peak of 1,979 TOPS; that of halves, 416 of them at half the rate, 1.26 ms. The "
            "epilogue has some 6 instructions a pair: 0.045 cycles of a multiprocessor beside 0.11 of its tensor "
            "cores, under which it hides. The distance to the guess reads all points and a centroid each: 0.49 GB, "
            "0.14 ms. A simulation leaves 1.5, 0.9 and 0.5 candidates a row after 0, 1 and 3 iterations, another "
            "0.2 to 0.07 ms. So 1.0 to 1.2 ms at full clocks, more where power lowers them; the first iteration "
            "multiplies twice. On data of low rank the base's 64 columns stay faster. A new algorithm: rows are "
            "bytes, and pairs are decided in the epilogue of their product",
        .shows = "assign", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact}, .prunes = true,
        .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
