// Wrong on purpose: a download after an upload of its own brings nothing: only end_to_end does that.
// scopes: end_to_end
// rejected: in the last timed end_to_end
#include "../../variants/parts/assign_rows.cuh"
#include "../../variants/parts/update_shared.cuh"

namespace {
using namespace ladder;

struct Own {
  Sums sums;
  int uploads = 0;
};

template <class T>
void upload(Run<T, Own>& s) {
  ++s.own.uploads;
  upload_rows(s);
}

template <class T>
void download(Run<T, Own>& s) {
  if (s.own.uploads == 1) download_rows(s);
}

template <class T>
constexpr Phases<T, Own> phases{.prepare = prepare_sums<T>,
                                .upload = upload<T>,
                                .restart = restart_rows<T>,
                                .assign = assign_points<T>,
                                .update = update_shared<T, Layout::rows>,
                                .download = download<T>};
}  // namespace

LADDER_VARIANT(.id = "w13_stale_result", .base = "v05_shared_update", .idea = "a result that stays on the device",
               .shows = "end_to_end", .refuse = refuse_update_shared, .f32 = phases<float>, .f64 = phases<double>)
