// ladder list: which variants, workloads (and where their data is) and devices there are.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "base/folders.hpp"
#include "base/source_text.hpp"
#include "commands/commands.hpp"
#include "runner/devices.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// `source_hash` is of what was built, by device; with `texts`, `text_hash` is of the file as it is now, null where it
/// does not lie in variants/.
json variants_as_json(const std::vector<Variant>& variants, bool texts) {
  json list = json::array();
  for (const Variant& v : variants) {
    json entry = v.card;
    entry.update({{"id", v.id}, {"base", v.base}, {"idea", v.idea}});
    entry.erase("device");
    entry["devices"] = json::array();
    entry["source_hash"] = json::object();
    for (const auto& [kind, module] : v.modules) {
      entry["devices"].push_back(to_string(kind));
      entry["source_hash"][to_string(kind)] = v.source_hash.at(kind);
    }
    if (texts) {
      const fs::path source = source_of(v.id, source_folder() / "variants");
      entry["text_hash"] = source.empty() ? json() : json(source_hash(source, source_folder()));
    }
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
                  {"metric", to_string(w.metric)},
                  {"kernel", to_string(w.kernel)},
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

std::string one_or_range(std::vector<int64_t> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? fmt::format("{}", *least) : fmt::format("{}..{}", *least, *most);
}

/// What all begin with, up to the end of a word.
std::string common_beginning(const std::vector<std::string>& texts) {
  size_t length = texts.front().size();
  for (const std::string& text : texts) {
    const auto differs = std::mismatch(text.begin(), text.end(), texts.front().begin(), texts.front().end()).first;
    length = std::min(length, size_t(differs - text.begin()));
  }
  std::string beginning = texts.front().substr(0, length);
  if (length < texts.front().size()) beginning = beginning.substr(0, beginning.find_last_of(" ,"));
  while (!beginning.empty() && (beginning.back() == ' ' || beginning.back() == ',')) beginning.pop_back();
  return beginning.empty() ? texts.front() : beginning;
}

/// A line for those that are drawn together (all of one family, or a single one), and one where data is missing.
void print_family(const std::vector<json>& members) {
  std::vector<int64_t> n, d, k;
  std::vector<std::string> titles;
  std::map<std::string, std::vector<std::string>> reasons;
  for (const json& w : members) {
    n.push_back(w["n"]), d.push_back(w["d"]), k.push_back(w["k"]);
    titles.push_back(w["title"]);
    if (!w["available"])
      reasons["not here: " + w["reason"].get<std::string>()].push_back(w["name"]);
    else if (w["reason"] != "")
      reasons[w["reason"]].push_back(w["name"]);
  }
  const json& first = members.front();
  const std::string size = fmt::format("{} x {}, {}", one_or_range(n), one_or_range(d), one_or_range(k));
  const std::string count = members.size() == 1 ? "" : fmt::format("{} of them", members.size());
  fmt::print("  {:<18} {:<11} {:<42} {:<17} {}\n",
             (members.size() == 1 ? first["name"] : first["family"]).get<std::string>(), count, size,
             first["stop"].get<std::string>(), common_beginning(titles));
  for (const auto& [reason, names] : reasons) {
    const std::string which = names.size() == members.size() ? "" : fmt::format("{} of them ", names.size());
    fmt::print("    {}{}\n", which, reason);
  }
}

void print_workloads(const json& workloads, bool every) {
  fmt::print("\nworkloads{:24}N x D, K\n", "");
  std::vector<std::vector<json>> families;
  for (const json& w : workloads) {
    const auto known = std::find_if(families.begin(), families.end(), [&](const std::vector<json>& family) {
      return !every && family.front()["family"] == w["family"];
    });
    if (known == families.end())
      families.push_back({w});
    else
      known->push_back(w);
  }
  for (const std::vector<json>& family : families) print_family(family);
}

void print_list(const json& all, bool every) {
  fmt::print("variants\n");
  for (const json& v : all["variants"]) {
    std::string devices;
    for (const json& device : v["devices"]) devices += (devices.empty() ? "" : ",") + device.get<std::string>();
    fmt::print("  {:<20} {:<20} {:<10} {}\n", v["id"].get<std::string>(),
               v["base"] == "" ? "(root)" : v["base"].get<std::string>(), devices, v["idea"].get<std::string>());
    if (!v.contains("broken")) continue;
    for (const auto& [kind, why] : v["broken"].items()) fmt::print("    {}: {}\n", kind, why.get<std::string>());
  }
  print_workloads(all["workloads"], every);
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
    bool as_json = false, every = false, texts = false;
    std::vector<std::string> folders;
  };
  const auto o = std::make_shared<Options>();
  auto* list = app.add_subcommand("list", "Show variants, workloads (and where their data is) and devices");
  auto* as_json = list->add_flag("--json", o->as_json, "For programs");
  list->add_flag("--texts", o->texts, "With --json: the hash of each variant's source text as it is now, too")
      ->needs(as_json);
  list->add_flag("--all", o->every, "A line for every workload, not only for each family");
  list->add_option("--modules", o->folders, "More folders with built variants");
  return {list, [o] {
            std::vector<Variant> variants = find_variants(module_folders(o->folders));
            need_bases(variants);
            const json all = {{"variants", variants_as_json(variants, o->texts)},
                              {"workloads", workloads_as_json(load_workloads())},
                              {"devices", find_devices()}};
            if (o->as_json)
              std::cout << all.dump(1) << "\n";
            else
              print_list(all, o->every);
            return 0;
          }};
}

}  // namespace ladder
