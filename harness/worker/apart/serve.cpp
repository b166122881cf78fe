#include "worker/apart/serve.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "worker/apart/direct.hpp"
#include "worker/apart/facts.hpp"
#include "worker/apart/mailbox.hpp"
#include "worker/module.hpp"

namespace ladder::apart {
namespace {

template <class T>
class Servant {
 public:
  Servant(const Request& request, const Device& device, const Shared& shared)
      : request_(request), device_(device), shared_(shared), mapped_(request) {}

  void answer(const Question& asked, Answer& answer) {
    if (asked.value > 0 && (asked.what == What::load || asked.what == What::refuse || asked.what == What::told))
      return say_part(asked.value, answer);
    if (asked.what == What::load) {
      if (!card_) {
        card_ = load_card(request_.module);
        axes_ = axes_of(*card_, request_);
      }
      const Facts facts{*card_, acts_of(card_->phases<T>())};
      return say(nlohmann::json(facts).dump(), asked.value, answer);
    }
    if (!card_) throw Error("nothing is loaded");
    const Card& card = *card_;
    if (asked.what == What::refuse)
      return say(card.refuse ? card.refuse(mapped_.problem, device_, axes_) : "", asked.value, answer);
    if (asked.what == What::begin) {
      Problem<T> problem = mapped_.problem;
      problem.n = int(asked.value);
      problem.stop = asked.stop;
      watch_.reset();
      run_.reset();
      run_.emplace(problem, device_, card, axes_, nullptr, asked.upload);
      start_ = 0;
      answer.seconds = run_->prepare_seconds();
    } else if (asked.what == What::end_run) {
      watch_.reset();
      run_.reset();
    } else if (run_) {
      run_->choose_stop(asked.stop);
      in_a_run(asked, answer);
    }
    tell_places(answer);
  }

 private:
  void in_a_run(const Question& asked, Answer& answer) {
    DirectDriver<T>& run = *run_;
    if (asked.start != start_) {
      const T* centroids = reinterpret_cast<const T*>(shared_.room());
      run.choose_initial({centroids, centroids + run.initial().size()});
      start_ = asked.start;
    }
    run.choose_seed(asked.seed);
    switch (asked.what) {
      case What::act:
        return run.call(Act(asked.value));
      case What::synchronize:
        return run.synchronize();
      case What::forget:
        return run.forget();
      case What::poison_labels:
        return run.poison_labels();
      case What::poison_result:
        return run.poison_result();
      case What::download:
        return run.download();
      case What::clear_drawn:
        return run.ready_to_draw(asked.seed);
      case What::solve:
        answer.value = run.solve();
        return;
      case What::measure: {
        const Measured measured = run.measure({.acts = {asked.acts},
                                               .from_host = asked.from_host,
                                               .cold = asked.cold,
                                               .spin = asked.spin,
                                               .waited = asked.waited});
        answer.value = measured.iterations;
        answer.seconds = measured.seconds;
        answer.submit_seconds = measured.submit_seconds;
        return;
      }
      case What::count:
        answer.value = run.count_changed();
        return;
      case What::clock:
        answer.seconds = run.clock_mhz();
        return;
      case What::sample_memory:
        return run.look_at_memory();
      case What::watch:
        watch_ = run.watch();
        return;
      case What::unwatch:
        watch_.reset();
        return;
      case What::peak:
        answer.value = run.peak_bytes();
        return;
      case What::told:
        return say(
            nlohmann::json{{"reassigned", run.reassigned()}, {"counters", run.counters()}, {"remark", run.remark()}}
                .dump(),
            asked.value, answer);
      case What::chosen:
        chosen_ = run.chosen();
        answer.chosen = reinterpret_cast<uint64_t>(chosen_.data());
        return;
      case What::publish:
        return publish(asked.value);
      default:
        throw Error("a question that no judge asks");
    }
  }
  void publish(int64_t which) {
    const Result<T> result = run_->result();
    const Problem<T>& p = run_->problem();
    const void* from = which == 0   ? static_cast<const void*>(result.label)
                       : which == 1 ? static_cast<const void*>(result.centroids)
                                    : chosen_.data();
    const size_t bytes = which == 0   ? size_t(p.n) * sizeof(int32_t)
                         : which == 1 ? size_t(p.k) * p.d * sizeof(T)
                                      : chosen_.size() * sizeof(int32_t);
    if (bytes > shared_.room_bytes()) throw Error("the shared memory is too small for a result");
    std::memcpy(shared_.room(), from, bytes);
  }
  void tell_places(Answer& answer) {
    if (!run_) return;
    const Result<T> result = run_->result();
    answer.label = reinterpret_cast<uint64_t>(result.label);
    answer.centroids = reinterpret_cast<uint64_t>(result.centroids);
    answer.keeps_count = run_->keeps_count();
  }
  /// The part of a text from that byte on.
  void say(std::string text, int64_t from, Answer& answer) {
    if (from == 0) said_ = std::move(text);
    say_part(from, answer);
  }
  void say_part(int64_t from, Answer& answer) {
    const std::string& text = said_;
    const size_t begin = std::min<size_t>(size_t(std::max<int64_t>(0, from)), text.size());
    std::memcpy(answer.text, text.data() + begin, std::min(sizeof answer.text, text.size() - begin));
    answer.text_bytes = text.size();
  }

  const Request& request_;
  const Device& device_;
  const Card* card_ = nullptr;
  Axes axes_;
  const Shared& shared_;
  const MappedProblem<T> mapped_;
  std::optional<DirectDriver<T>> run_;
  std::shared_ptr<void> watch_;
  std::vector<int32_t> chosen_;
  std::string said_;    // of which the judge takes one part after another
  uint64_t start_ = 0;  // that the run has
};

void fail(Answer& answer, Answer::Kind kind, const char* why) {
  answer.kind = kind;
  answer.text_bytes = std::min(std::strlen(why), sizeof answer.text);
  std::memcpy(answer.text, why, answer.text_bytes);
}

template <class T>
int serve_type(const Request& request, const Device& device, const Shared& shared) {
  Mailbox& box = shared.box();
  // Cores are idle beside a GPU; elsewhere they are what a variant is timed on.
  const double spin = device.kind == DeviceKind::cuda && std::thread::hardware_concurrency() >= 4 ? 2e-3 : 50e-6;
  std::unique_ptr<Servant<T>> servant;
  for (uint32_t number = 1;; ++number) {
    await(box.asked, number, spin, [] {});
    const Question question = box.question;
    Answer& answer = box.answer;
    answer.kind = Answer::Kind::done;
    answer.text_bytes = 0;
    answer.keeps_count = -1;
    if (question.what == What::quit) break;
    try {
      if (!servant) servant = std::make_unique<Servant<T>>(request, device, shared);
      servant->answer(question, answer);
    } catch (const Refusal& refusal) {
      fail(answer, Answer::Kind::refused, refusal.what());
    } catch (const std::exception& error) {
      fail(answer, Answer::Kind::error, error.what());
    }
    announce(box.answered, number);
  }
  return 0;
}

std::string text_of(int descriptor) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = pread(descriptor, part, sizeof part, off_t(text.size()))) > 0;)
    text.append(part, size_t(count));
  close(descriptor);
  return text;
}

}  // namespace

int serve(int mailbox, int request_file, const std::function<Device(const Request&)>& device_of) {
  const Request request = nlohmann::json::parse(text_of(request_file));
  const Shared shared = Shared::of(mailbox);
  const Device device = device_of(request);
  return request.type == "f32" ? serve_type<float>(request, device, shared)
                               : serve_type<double>(request, device, shared);
}

}  // namespace ladder::apart
