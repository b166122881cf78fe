// v46b: where short rows decide nothing, the full pass runs in bytes. On isotropic data the base's pilot finds no width
// of short rows that pays, and every iteration multiplies halves in all features. Here such a run takes the products of
// bytes (v38a_integers), which cost half as much and whose bounds leave few candidates on just these data. Their
// operands are written at the restart, when the frame is final. The first assignment multiplies halves: it has no
// labels to guess from, and bytes would be multiplied twice. Bytes need no order of the rows, so that these are sorted
// for a full re-sum only. Everything else is the base's.
//
// for cuda: 90a
#include "../common/integers/byte_filter.cuh"
#include "../common/overlap/eager_assign.cuh"
#include "../common/overlap/graph_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Workspace : OverlappedState<T> {
  GraphLoop loop;
  ByteRows bytes;
  bool takes_bytes = false, has_bytes = false;  // of an upload
};

template <class T>
void prepare(Run<T, Workspace<T>>& s) {
  prepare_overlapped(s);
  prepare_loop(s);
  if (wants_filter(s)) prepare_bytes(s);
}

/// Directions and width from a sample, or bytes in the place of short rows.
template <class T>
void find_filter(Run<T, Workspace<T>>& s, const T* sample, int count) {
  find_projection(s, sample, count);
  const bool takes = wants_filter(s) && prefers_bytes(s);
  s.ws.takes_bytes = takes, s.ws.has_bytes = false;
  if (takes) s.ws.filter.width = 0;
  s.ws.order.sort.resort_share = takes ? 0 : s.axis("resort_share");
}

template <class T>
void upload(Run<T, Workspace<T>>& s) {
  upload_overlapped(
      s, [&](const T* sample, int count) { find_filter(s, sample, count); },
      [&](const RowRange& range) { assign_eager(s, range); });
}

template <class T>
void restart(Run<T, Workspace<T>>& s) {
  restart_overlapped(s);
  if (!s.ws.takes_bytes) return;
  if (!std::exchange(s.ws.has_bytes, true))
    write_byte_points(s);  // the points are complete now, and the frame is final
  s.ws.filter.width = s.ws.bytes.width;
  reset_filter(s);  // with the counters of a filter that is on
}

template <class T>
void assign(Run<T, Workspace<T>>& s) {
  if (s.ws.takes_bytes)
    assign_by_bytes(s);
  else
    assign_or_reuse(s);
}

template <class T>
void update(Run<T, Workspace<T>>& s) {
  update_active_set(s);
}

template <class T>
void solve(Run<T, Workspace<T>>& s) {
  solve_filtered(s, [&] { assign(s), update_active_set(s); });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  const std::string why = refuse_filter(p, device, axes);
  return why.empty() ? refuse_loop() : why;
}

template <class T>
constexpr Phases<T, Workspace<T>> phases{.prepare = prepare<T>,
                                         .upload = upload<T>,
                                         .restart = restart<T>,
                                         .assign = assign<T>,
                                         .update = update<T>,
                                         .solve = solve<T>,
                                         .download = download_overlapped<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v46b_byte_filter", .base = "v46_graph_loop",
        .idea = "where the pilot finds that short rows do not pay, all features are multiplied as bytes",
        .expect =
            "at kmcuda_isotropic on an H200 the pilot switches the filter off, and an iteration of the base is the "
            "product of halves beside the update: 2.13 ms in the second, 1.83 in the ninth. In bytes the product takes "
            "half the cycles, and draws less power; thresholds and candidates add 0.22 to 0.39 ms: 1.3 ms on average, "
            "at most the 1.40 of the goal. Measured on an H100: a solve of 17.1 ms, before 19.1, so 1.90 ms on "
            "average; "
            "the epilogue takes as long as the product (v38a's card), and the first iteration stays in halves. The "
            "whole run gains nothing, 28.0 ms for 27.9: the bytes are written behind the last copy. Where short rows "
            "pay, as at kmcuda, nothing changes. Where neither they nor bytes decide, rows overflow, and both products "
            "are paid. A new algorithm, as v38a",
        .shows = "solve", .source = "this project", .arithmetic = {.form = Arithmetic::Form::exact},
        .axes = {{"short_row_width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot},
                 {"slack_permille", {0, 3, 10, 30, 60}, 30},
                 {"full_update_share", {2, 3, 4, 6, 8, 12}, 6},
                 {"resort_share", {2, 4, 8, 16, 32, 64}, 8},
                 {"upload_chunks", {1, 2, 4, 8, 12, 16, 32}, 12},
                 {"bytes", {where_useless, 0, 1}, where_useless}},
        .prunes = true, .refuse = refuse, .f32 = phases<float>, .f64 = phases<double>)
