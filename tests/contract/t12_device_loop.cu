// A variant that has assign and update as well as a solve of its own: v26_projected's, the solve by the loop of
// v29_device_loop, whose other parts the CPU device does not have.
#include "../../variants/parts/assign_certified.cuh"
#include "../../variants/parts/contested_loop.cuh"

namespace {
using namespace ladder;

template <class T>
void prepare(State<T>& s) {
  prepare_pinned(s);
  s.template own<Rows<T>>().points = s.x;
  prepare_certified(s);
  prepare_moved(s);
  if (wants_few(s)) prepare_few(s, s.axis("width"), s.axis("width") == by_pilot);
  prepare_loop(s);
}

template <class T>
void upload(State<T>& s) {
  upload_rows(s);
  halve_points(s);
  if (s.template own<Few>().directions.at)
    project_points(s, s.template own<certified::Certified<T>>().view, s.axis("width"));
  choose_format(s, s.x);
}

template <class T>
void assign(State<T>& s) {
  const auto& few = s.template own<Few>();
  if (few.width == 0) return assign_certified(s);
  Doubts* const doubts = next_doubts(s);
  Contest* const contest = contest_of(s, doubts);
  assign_by_few(s, s.template own<certified::Certified<T>>().view, contest, doubts);
  assign_listed(s, few.left, &contest->listed, doubts);
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
  if (why.empty()) why = refuse_certified(p, device);
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

LADDER_VARIANT(.id = "t12_device_loop", .base = "v26_projected", .idea = "steps, and a solve of its own beside them",
               .shows = "solve", .arithmetic = {.form = Arithmetic::Form::exact},
               .axes = {{"width", {by_pilot, 0, 32}, by_pilot}}, .prunes = true, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
