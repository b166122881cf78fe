// A refusal that depends on a tuning axis: blocks of more threads than there are points make no sense here.
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
void assign(State<T>& s) {
  const int block = s.axis("block");
  launch(assign_points_kernel<T>, blocks(s.n, block), block, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

std::string refuse(const Shape& p, const Device&, const Axes& axes) {
  if (axes["block"] <= p.n) return "";
  return "a block of " + std::to_string(axes["block"]) + " threads is more than " + std::to_string(p.n) + " points";
}

template <class T>
constexpr Phases<T> phases{.prepare = prepare_device<T>,
                           .upload = upload_rows<T>,
                           .restart = restart_rows<T>,
                           .assign = assign<T>,
                           .update = update_on_host<T>,
                           .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t7_axis_refused", .base = "v01_global", .idea = "an axis that a refusal looks at",
               .shows = "assign", .axes = {{"block", {32, 64, 1024}, 32}}, .refuse = refuse, .f32 = phases<float>,
               .f64 = phases<double>)
