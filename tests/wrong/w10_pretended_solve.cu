// Wrong on purpose: right phases, and a solve that works once and later only repeats what it reported then.
// rejected: in the last timed solve
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

template <class T>
struct Own {
  Sums sums;
  std::vector<int64_t> reassigned;
};

template <class T>
void solve(Run<T, Own<T>>& s) {
  auto& own = s.own;
  const bool whole = s.problem.stop.rule != Stop::Rule::fixed;
  if (whole && !own.reassigned.empty()) {
    s.reassigned = own.reassigned;
    return;
  }
  std::vector<int32_t> previous(s.n, -1);
  for (int done = 1;; ++done) {
    assign_points(s);
    download_labels(s);
    check(cudaStreamSynchronize(s.stream), "reading labels");
    int64_t changed = 0;
    for (int i = 0; i < s.n; ++i) changed += s.result.label[i] != std::exchange(previous[i], s.result.label[i]);
    s.reassigned.push_back(changed);
    update_shared<T, Layout::rows>(s);
    if (s.problem.stop.reached(done, changed, s.n)) break;
  }
  if (whole) own.reassigned = s.reassigned;
}

template <class T>
constexpr Phases<T, Own<T>> phases{.prepare = prepare_sums<T>,
                                   .upload = upload_rows<T>,
                                   .restart = restart_rows<T>,
                                   .assign = assign_points<T>,
                                   .update = update_shared<T, Layout::rows>,
                                   .solve = solve<T>,
                                   .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w10_pretended_solve", .base = "v05_shared_update", .idea = "a solve that is done once",
               .shows = "solve", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
