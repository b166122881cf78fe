// Wrong on purpose: the labels of the first iteration are kept, and handed out again after each restart.
// scopes: assign
// rejected: in the last timed assign
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

struct Own {
  Sums sums;
  int32_t* first = nullptr;
  bool known = false, begins = true;
};

template <class T>
void restart(Run<T, Own>& s) {
  s.own.begins = true;
  restart_rows(s);
}

template <class T>
void assign(Run<T, Own>& s) {
  auto& own = s.own;
  if (!own.first) own.first = s.template device<int32_t>(s.n);
  const bool begins = std::exchange(own.begins, false), kept = begins && own.known;
  if (!kept) assign_points(s);
  if (begins) {
    check(cudaMemcpyAsync(kept ? s.label : own.first, kept ? own.first : s.label, s.n * sizeof(int32_t),
                          cudaMemcpyDeviceToDevice, s.stream),
          "keeping labels");
    own.known = true;
  }
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload_rows<T>,
                                .restart = restart<T>,
                                .assign = assign<T>,
                                .update = update_shared<T, Layout::rows>,
                                .download = download_rows<T>};
}  // namespace

LADDER_VARIANT(.id = "w14_kept_labels", .base = "v05_shared_update", .idea = "labels kept across restarts",
               .shows = "assign", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
