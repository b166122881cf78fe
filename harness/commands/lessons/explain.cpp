// ladder explain: the idea of a rung, its step, what was predicted and counted, its times and a question.
#include <memory>

#include "commands/commands.hpp"
#include "lessons/explanation.hpp"

namespace ladder {

Command explain_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> ids;
    bool as_json = false, with_answer = false;
  };
  const auto o = std::make_shared<Options>();
  auto* explain = app.add_subcommand(
      "explain", "Explain a rung: idea, diff, predicted beside counted, limits, times, and a question");
  explain->add_option("ids", o->ids, "The variant, or several")->required();
  explain->add_flag("--json", o->as_json, "One JSON object, with the answer; an array of several variants");
  explain->add_flag("--answer", o->with_answer, "Show the answer to the question");
  explain->footer(
      "From the card and the text of the rung's file, the committed records and the committed counters: nothing is "
      "run,\n"
      "and no GPU is needed. A prediction is a formula of the card in N, K, D, B (bytes per value) and the rung's "
      "axes.");
  return {explain, [o] {
            nlohmann::json all = nlohmann::json::array();
            for (const std::string& id : o->ids) all.push_back(explanation_of(id));
            if (o->as_json) {
              fmt::print("{}\n", (all.size() == 1 ? all[0] : all).dump(1));
              return 0;
            }
            for (size_t i = 0; i < all.size(); ++i)
              fmt::print("{}{}", i > 0 ? "\n\n" : "", explanation_text(all[i], o->with_answer));
            return 0;
          }};
}

}  // namespace ladder
