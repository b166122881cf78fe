#include "records/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.hpp"
#include "base/foreign.hpp"
#include "base/text.hpp"
#include "formats/schema.hpp"
#include "protocol/json.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const char* const place_keys[] = {"device", "machine", "gpus",   "variant", "n",     "d",
                                  "k",      "type",    "metric", "kernel",  "filled"};

json place_of(const json& entry) {
  json place = json::array();  // in this order, by which the file is sorted
  for (const char* key : place_keys) place.push_back(entry.at(key));
  return place;
}

}  // namespace

int filled_percent(int64_t nonzeros, double values) {
  return nonzeros < 0 ? 100 : std::max(10, 10 * int(std::ceil(10 * double(nonzeros) / values)));
}

std::string machine_of(const json& context, DeviceKind device) {
  if (device == DeviceKind::cuda) return context.at("gpu").value("name", "");
  return context.at("host").at("cpu");
}

json tuned_place(const Variant& v, const Workload& w, DeviceKind device, int gpus, const json& context) {
  return {{"device", device},
          {"machine", machine_of(context, device)},
          {"gpus", gpus},
          {"variant", v.id},
          {"n", w.n},
          {"d", w.d},
          {"k", w.k},
          {"type", w.type},
          {"metric", w.metric},
          {"kernel", w.kernel},
          {"filled", filled_percent(w.nonzeros, double(w.n) * double(w.d))}};
}

json read_tuned(const fs::path& file) {
  if (!fs::exists(file)) return {{"schema_version", tuned_version}, {"entries", json::array()}};
  json document = read_json(file);
  const std::string remedy = "mend it, or delete it and tune again";
  if (!document.is_object() || document.value("schema_version", json()) != tuned_version) {
    throw Error(
        fmt::format("{} does not hold tuned values of schema version {}: {}", file.string(), tuned_version, remedy));
  }
  schema_named("tuned").need(document, file, remedy);
  return document;
}

json tuned_entry(const json& document, const json& place) {
  const json wanted = place_of(place);
  for (const json& entry : document.at("entries")) {
    if (place_of(entry) == wanted) return entry;
  }
  return nullptr;
}

std::string why_stale(const json& entry, const Variant& v) {
  json remaining = entry.at("axes");
  for (const json& axis : v.card.value("axes", json::array())) {
    const std::string name = axis.at("name");
    if (!remaining.contains(name)) return fmt::format("it has an axis {} today, and was tuned without", name);
    const int value = remaining.at(name);
    const auto values = axis.at("values").get<std::vector<int>>();
    if (std::find(values.begin(), values.end(), value) == values.end())
      return fmt::format("its axis {} has no value {} any more: it has {}", name, value, listed(values));
    remaining.erase(name);
  }
  return remaining.empty() ? "" : fmt::format("it has no axis {} any more", remaining.begin().key());
}

void put_tuned(const fs::path& file, json entry) {
  const FileLock alone = FileLock::wait(file);
  json document = read_tuned(file);
  auto entries = document["entries"].get<std::vector<json>>();
  const json place = place_of(entry);
  std::erase_if(entries, [&](const json& known) { return place_of(known) == place; });
  entries.push_back(std::move(entry));
  std::sort(entries.begin(), entries.end(), [](const json& a, const json& b) { return place_of(a) < place_of(b); });
  // A line for each entry, so that a difference can be read.
  std::string text = fmt::format("{{\n\"schema_version\": {},\n\"entries\": [", tuned_version);
  for (size_t i = 0; i < entries.size(); ++i) text += (i ? ",\n " : "\n ") + entries[i].dump();
  write_whole(file, text + "\n]\n}\n");
}

}  // namespace ladder
