// ladder predict: how long a rung should take on a GPU, by its lesson and the GPU's data sheet.
#include <memory>

#include "commands/commands.hpp"
#include "lessons/forecast.hpp"

namespace ladder {

namespace {

/// "points=4": the name of an axis and its value.
std::pair<std::string, double> axis_in(const std::string& text) {
  const size_t equals = text.find('=');
  try {
    if (equals != std::string::npos) return {text.substr(0, equals), std::stod(text.substr(equals + 1))};
  } catch (const std::exception&) {
    // said below
  }
  throw Error(fmt::format("--axis is NAME=VALUE, such as points=4, not '{}'", text));
}

}  // namespace

Command predict_command(CLI::App& app) {
  struct Options {
    std::string id, workload = "kmcuda", device = "h200";
    std::vector<std::string> axes;
    bool as_json = false;
  };
  const auto o = std::make_shared<Options>();
  auto* predict =
      app.add_subcommand("predict", "Predict bytes, operations, occupancy, the limiter and a time band, without a GPU");
  predict->add_option("id", o->id, "The variant: one with a lesson")->required();
  predict->add_option("--workload", o->workload, "A workload of `ladder list`")->capture_default_str();
  predict->add_option("--device", o->device, "A GPU of harness/lessons/gpus.json: t4, a100, h200 and others")
      ->capture_default_str();
  predict->add_option("--axis", o->axes, "An axis in place of its standard value: NAME=VALUE");
  predict->add_flag("--json", o->as_json, "One JSON object");
  predict->footer(
      "Of the formulas of the card and of data sheets; each figure is shown with the document that states it. The "
      "time\n"
      "that the committed records have of this rung, workload and GPU is shown beside the prediction.");
  return {predict, [o] {
            std::map<std::string, double> axes;
            for (const std::string& axis : o->axes) axes.insert(axis_in(axis));
            const std::vector<Workload> chosen = choose_workloads(load_workloads(), o->workload);
            if (chosen.size() != 1)
              throw Error(fmt::format("'{}' is {} workloads: name one", o->workload, chosen.size()));
            const nlohmann::json forecast = forecast_of(o->id, chosen[0], o->device, axes);
            fmt::print("{}", o->as_json ? forecast.dump(1) + "\n" : forecast_text(forecast));
            return 0;
          }};
}

}  // namespace ladder
