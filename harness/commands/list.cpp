// ladder list: which variants, workloads (and where their data is) and devices there are.
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "sessions/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json variants_as_json(const std::vector<Variant>& variants) {
  json list = json::array();
  for (const Variant& v : variants) {
    json entry = v.card.is_object() ? v.card : json{{"id", v.id}, {"base", ""}, {"idea", ""}};
    entry.erase("device");
    entry["devices"] = json::array();
    for (const auto& [kind, module] : v.modules) entry["devices"].push_back(to_string(kind));
    if (!v.broken.empty()) {
      entry["broken"] = json::object();
      for (const auto& [kind, why] : v.broken) entry["broken"][to_string(kind)] = why;
    }
    list.push_back(entry);
  }
  return list;
}

json workloads_as_json(const std::vector<Workload>& workloads) {
  json list = json::array();
  for (const Workload& w : workloads) {
    const bool made = w.generator.is_null() || fs::exists(w.points);
    json entry = {{"name", w.name},
                  {"family", w.family},
                  {"title", w.title},
                  {"n", w.n},
                  {"d", w.d},
                  {"k", w.k},
                  {"type", w.type},
                  {"stop", to_string(w.stop)},
                  {"source", w.source},
                  {"available", w.missing.empty()},
                  {"data", w.points.string()}};
    entry["reason"] = !w.missing.empty() ? w.missing : made ? "" : "generated when it is first run";
    if (w.image.is_object()) entry["image"] = w.image;
    list.push_back(entry);
  }
  return list;
}

void print_list(const json& all) {
  fmt::print("variants\n");
  for (const json& v : all["variants"]) {
    std::string devices;
    for (const json& device : v["devices"]) devices += (devices.empty() ? "" : ",") + device.get<std::string>();
    fmt::print("  {:<20} {:<20} {:<10} {}\n", v["id"].get<std::string>(),
               v["base"] == "" ? "(root)" : v["base"].get<std::string>(), devices, v["idea"].get<std::string>());
    if (!v.contains("broken")) continue;
    for (const auto& [kind, why] : v["broken"].items()) fmt::print("    {}: {}\n", kind, why.get<std::string>());
  }
  fmt::print("\nworkloads            N x D, K\n");
  for (const json& w : all["workloads"]) {
    const std::string size =
        fmt::format("{} x {}, {}", w["n"].get<int64_t>(), w["d"].get<int64_t>(), w["k"].get<int>());
    fmt::print("  {:<18} {:<24} {:<17} {}\n", w["name"].get<std::string>(), size, w["stop"].get<std::string>(),
               w["title"].get<std::string>());
    if (w["reason"] != "") {
      fmt::print("    {}{}\n", w["available"] ? "" : "not here: ", w["reason"].get<std::string>());
    }
  }
  fmt::print("\ndevices\n");
  for (const json& d : all["devices"]) {
    fmt::print("  {:<5} {} ({} multiprocessors or cores, {:.1f} GiB)\n", d["kind"].get<std::string>(),
               d["name"].get<std::string>(), d["multiprocessors"].get<int>(),
               d["memory_bytes"].get<double>() / (1 << 30));
  }
}

}  // namespace

Command list_command(CLI::App& app) {
  struct Options {
    bool as_json = false;
    std::vector<std::string> folders;
  };
  const auto o = std::make_shared<Options>();
  auto* list = app.add_subcommand("list", "Show variants, workloads (and where their data is) and devices");
  list->add_flag("--json", o->as_json, "For programs");
  list->add_option("--modules", o->folders, "More folders with built variants");
  return {list, [o] {
            const json all = {{"variants", variants_as_json(find_variants(module_folders(o->folders)))},
                              {"workloads", workloads_as_json(load_catalogue())},
                              {"devices", find_devices()}};
            if (o->as_json)
              std::cout << all.dump(1) << "\n";
            else
              print_list(all);
            return 0;
          }};
}

}  // namespace ladder
