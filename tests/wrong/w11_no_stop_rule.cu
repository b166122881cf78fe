// Wrong on purpose: a solve that always does seven iterations, whatever the stop rule says.
// rejected: the stop rule is exact
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

struct Own {
  Sums sums;
};

template <class T>
void solve(Run<T, Own>& s) {
  std::vector<int32_t> previous(s.n, -1);
  for (int done = 1; done <= 7; ++done) {
    assign_points(s);
    download_labels(s);
    check(cudaStreamSynchronize(s.stream), "reading labels");
    int64_t changed = 0;
    for (int i = 0; i < s.n; ++i) changed += s.result.label[i] != std::exchange(previous[i], s.result.label[i]);
    s.reassigned.push_back(changed);
    update_shared<T, Layout::rows>(s);
  }
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update_shared<T, Layout::rows>,
                                .solve = solve<T>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w11_no_stop_rule", .base = "v05_shared_update", .idea = "no stop rule", .shows = "solve",
               .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
