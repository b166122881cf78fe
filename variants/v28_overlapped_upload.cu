// v28: points are worked on while they arrive. The base's upload is a copy, and then 4 ms of work on what it brought:
// halves, directions, short rows, the range of the sums. All of that is done point by point, but for what must be known
// before the first: where points are looked at from, in which unit, along which directions, and how many. It is found
// from a sample, which comes first; then the points come in pieces, and each piece is worked on while the copy engine
// brings the next (parts/upload_in_pieces.cuh). Where a point that the sample did not have leaves its unit, all is done
// again as the base does it. Whether one did, the host hears last; by then it has the initial centroids in page-locked
// memory.
// for cuda: 90a
#include "parts/gathered_rows.cuh"
#include "parts/update_moved.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/warpgroup_contest.cuh"

#include "parts/upload_in_pieces.cuh"

namespace {
using namespace ladder;

template <class T>
void prepare(State<T>& s) {
  prepare_pinned(s);
  s.template own<Rows<T>>().points = s.x;
  prepare_in_groups(s);
  prepare_moved(s);
  prepare_gathered(s, wants_few(s));
  if (wants_few(s)) prepare_few(s, s.axis("width"), s.axis("width") == by_pilot);
  prepare_pieces(s, wants_few(s));
}

template <class T>
void upload(State<T>& s) {
  const auto& view = s.template own<CertifiedInGroups<T>>().view;
  const bool wants_directions = s.template own<Few>().directions.at;
  upload_gathered(s);
  upload_in_pieces(
      s, view, s.axis("pieces"),
      [&](const T* sample, int count) {
        if (wants_directions) find_few(s, sample, count, view, s.axis("width"));
      },
      [&](const RowRange& range) {
        halve_rows_in_groups(s, range);
        if (wants_directions) project_rows(s, view, range);
      });
}

template <class T>
void restart(State<T>& s) {
  restart_ahead(s);
  finish_upload(s, [&] {
    halve_points_in_groups(s);
    if (s.template own<Few>().directions.at)
      project_points(s, s.template own<CertifiedInGroups<T>>().view, s.axis("width"));
  });
  forget_contested(s);
}

template <class T>
void assign(State<T>& s) {
  const auto& few = s.template own<Few>();
  if (few.width == 0) return assign_all(s);
  Doubts* const doubts = next_doubts(s);
  Contest* const contest = contest_of(s, doubts);
  assign_by_few<ByWarpgroups>(s, s.template own<CertifiedInGroups<T>>().view, contest, doubts);
  assign_gathered(s, few.left, &contest->listed, doubts);
}

template <class T>
void update(State<T>& s) {
  update_moved(s, s.x);
}

template <class T>
void download(State<T>& s) {
  download_contested(s);
  tell_upload(s);
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_width(p, axes);
  return why.empty() ? refuse_in_groups(p, device) : why;
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload<T>,
                           .restart = restart<T>,
                           .assign = assign<T>,
                           .update = update<T>,
                           .download = download<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v28_overlapped_upload", .base = "v26b_warpgroups",
        .idea = "halves, directions and short rows of each piece of the points while the next piece is copied",
        .expect =
            "of the 13.1 ms that the base's upload takes at kmcuda on an H200 8.9 are the copy. The sample is 7 of 490 "
            "MB, and the last of 12 pieces 0.2 ms of work: 9.5 ms. Whole runs gain that and most of what the initial "
            "centroids took, 8 MB from pageable memory; iterations take the same. A larger step: what was done with "
            "all points at once is done piece by piece, between events of two streams",
        .shows = "end_to_end",
        .source = "this project; CUDA C++ Best Practices Guide, staged concurrent copy and execute",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}, {"pieces", {1, 2, 4, 8, 12, 16, 32}, 12}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
