// A variant that has assign and update as well as a solve of its own: v26_projected's, the solve by the loop of
// v29_device_loop, whose other parts the CPU device does not have.
#include "../../variants/parts/assign_certified.cuh"
#include "../../variants/parts/contested_loop.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  DeviceLoop loop;
  Few filter;
  MovedSums incremental;
  Recheck refinement;
  Rows<T> rows;
  certified::Certified<T> certified;
};

template <class T>
void prepare(Run<T, Own<T>>& s) {
  prepare_pinned(s);
  s.own.rows.points = s.x;
  prepare_certified(s);
  prepare_moved(s);
  if (wants_few(s)) prepare_few(s, s.axis("width"), s.axis("width") == by_pilot);
  prepare_loop(s);
}

template <class T>
void upload(Run<T, Own<T>>& s) {
  upload_rows(s);
  halve_points(s);
  if (s.own.filter.directions.at) project_points(s, s.own.certified.view, s.axis("width"));
  choose_format(s, s.x);
}

template <class T>
void assign(Run<T, Own<T>>& s) {
  const auto& few = s.own.filter;
  if (few.width == 0) return assign_certified(s);
  Doubts* const doubts = next_doubts(s);
  Contest* const contest = contest_of(s, doubts);
  assign_by_few(s, s.own.certified.view, contest, doubts);
  assign_listed(s, few.left, &contest->listed, doubts);
}

template <class T>
void update(Run<T, Own<T>>& s) {
  update_moved(s, s.x);
}

template <class T>
void solve(Run<T, Own<T>>& s) {
  solve_contested(s, [&] { assign(s), update(s); });
}

std::string refuse(const Shape& p, const Device& device, const Axes& axes) {
  std::string why = refuse_width(p, axes);
  if (why.empty()) why = refuse_certified(p, device);
  return why.empty() ? refuse_loop() : why;
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare<T>,
                                   .upload = upload<T>,
                                   .restart = restart_contested<T>,
                                   .assign = assign<T>,
                                   .update = update<T>,
                                   .solve = solve<T>,
                                   .download = download_contested<T>};
}  // namespace

LADDER_VARIANT(.id = "t12_device_loop", .base = "v26_projected", .idea = "steps, and a solve of its own beside them",
               .shows = "solve", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"width", {by_pilot, 0, 32}, by_pilot}}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
