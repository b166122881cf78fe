// A rung on points of its own, driven phase by phase.
#pragma once
#include "session_helper.hpp"
#include "worker/apart/direct.hpp"
#include "worker/module.hpp"

namespace ladder::test {

constexpr bool on_gpu = std::string_view(HOME_KIND) == "cuda";

using Counters = std::map<std::string, std::vector<int64_t>>;

/// A rung on points of which the first k are the centroids to begin with; uploaded, and no restart since.
template <class T>
class Rung {
 public:
  Rung(const std::string& id, int width, const std::vector<T>& points, int k, int d,
       const std::map<std::string, int>& chosen = {}) {
    const auto all = built("variants");
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.second.id == id; });
    if (found == all.end()) throw Error("variants/" + id + " was not built");
    const Card& card = *load_card(found->second.modules.at(found->first));
    device_ = device_of(found->first, {0}, false);
    if (!on_gpu) device_.multiprocessors = 2;  // as many pieces, wherever this runs
    Axes axes;
    for (const Axis& axis : card.axes) axes.value[axis.name] = axis.standard;
    if (axes.value.count("short_row_width")) axes.value["short_row_width"] = width;
    for (const auto& [name, value] : chosen) {
      if (axes.value.count(name)) axes.value[name] = value;
    }
    Problem<T> p;
    p.n = int(points.size()) / d, p.k = k, p.d = d, p.element_bytes = sizeof(T);
    p.points = p.centroids = points.data();
    if (card.refuse) refused = card.refuse(p, device_, axes);
    if (refused.empty()) run_.emplace(p, device_, card, axes);
  }
  std::string refused;

  DirectDriver<T>& operator*() { return *run_; }
  /// Other points, as many.
  void upload(const std::vector<T>& points) {
    run_->synchronize();
    std::copy(points.begin(), points.end(), const_cast<T*>(run_->state().points));  // its page-locked copy
    run_->call(Act::upload);
  }
  std::vector<int32_t> labels() {
    run_->download();
    return run_->labels();
  }
  std::vector<T> centroids() {
    run_->download();
    return run_->centroids();
  }
  Counters counters() { return run_->state().counters; }

 private:
  Device device_;
  std::optional<DirectDriver<T>> run_;
};

}  // namespace ladder::test
