// v29: the loop goes to where its data is. So far the host keeps it: after each iteration it has changed labels
// counted, waits for the count, asks whether the solve ends, and launches the next iteration's kernels, the first of
// which the device waits for. Here an iteration is captured once, as the body of a loop in a graph
// (parts/device_loop.cuh); a kernel at its end asks the same question of the same count, which the update has
// anyway, and the host hears of nothing but the end. Labels and centroids are the base's, to the last bit.
// for cuda: 90a
#include "parts/gathered_rows.cuh"
#include "parts/update_moved.cuh"

// After them, as in the base: so that ladder diff shows what changed, not what moved.
#include "parts/warpgroup_contest.cuh"

// The same.
#include "parts/contested_loop.cuh"

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
  prepare_loop(s);
}

template <class T>
void upload(State<T>& s) {
  upload_rows(s);
  halve_points_in_groups(s);
  if (s.template own<Few>().directions.at)
    project_points(s, s.template own<CertifiedInGroups<T>>().view, s.axis("width"));
  choose_format(s, s.x);
  upload_gathered(s);
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
void solve(State<T>& s) {
  solve_contested(s, [&] { assign(s), update(s); });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  std::string why = refuse_width(p, axes);
  if (why.empty()) why = refuse_in_groups(p, device);
  return why.empty() ? refuse_loop() : why;
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare<T>,
                           .upload = upload<T>,
                           .restart = restart_contested<T>,
                           .assign = assign<T>,
                           .update = update<T>,
                           .solve = solve<T>,
                           .download = download_contested<T>};
}  // namespace

LADDER_VARIANT(
        .id = "v29_device_loop", .base = "v26b_warpgroups",
        .idea = "the loop and its stop rule on the device: one iteration captured in a graph that repeats itself",
        .expect =
            "an iteration of some 20 launches ends with a count of labels, a copy of 8 bytes, a wait, and a first "
            "launch into an idle stream: some 30 us in all. Of the base's 0.95 to 2.9 ms at kmcuda on an H200 that is "
            "1 to 3 %; of its 97 us at wine_k900 nearly half, for there the gaps between kernels shrink as well",
        .shows = "solve", .source = "CUDA 12.4: conditional nodes of graphs",
        .arithmetic = {.form = Arithmetic::Form::exact}, .devices = {DeviceKind::cuda},
        .axes = {{"width", {by_pilot, 0, 32, 48, 64, 96, 128}, by_pilot}}, .prunes = true, .refuse = refuse,
        .f32 = phases<float>, .f64 = phases<double>)
