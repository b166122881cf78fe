// A variant that keeps the whole solve to itself, as Yinyang and persistent kernels will: no assign, no update, the
// stop rule and the count of reassigned points are its own. It also has a tuning axis that the compiler must know.
#include "../../variants/parts/assign_rows.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  std::vector<int32_t> previous, now;
};

template <class T, int block>
void assign(State<T>& s) {
  launch(assign_points_kernel<T>, blocks(s.n, block), block, 0, s.stream, s.x, s.c, s.label, s.n, s.k, s.d);
}

template <class T>
void solve(Run<T, Own<T>>& s) {
  auto& own = s.own;
  own.previous.assign(s.n, -1);
  own.now.resize(s.n);
  for (int done = 1;; ++done) {
    dispatch<64, 256>(s.axis("block"), [&]<int block>() { assign<T, block>(s); });
    check(cudaMemcpy(own.now.data(), s.label, s.n * sizeof(int32_t), cudaMemcpyDeviceToHost), "reading labels");
    int64_t changed = 0;
    for (int i = 0; i < s.n; ++i) changed += own.now[i] != own.previous[i];
    own.previous = own.now;
    s.reassigned.push_back(changed);
    update_on_host(s);
    if (s.problem.stop.reached(done, changed, s.n)) return;
  }
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_device<T>,
                                   .upload = upload_rows<T>,
                                   .restart = restart_rows<T>,
                                   .solve = solve<T>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "t1_whole_solve", .base = "v01_global", .idea = "the whole solve in one piece", .shows = "solve",
               .axes = {{"block", {64, 256}, 256}}, .f32 = phases<float>, .f64 = phases<double>)
