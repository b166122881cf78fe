// ladder choose: which variant is fastest for a shape, by the table in results/choice.json; and making that table.
#include <algorithm>
#include <memory>

#include "commands/commands.hpp"
#include "formats/place.hpp"
#include "records/record.hpp"
#include "runner/choice.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct ChooseWords {
  std::string shape, type = "f32", device = "cuda", machine;
  int filled = 100, tries = usual_tries;
  std::string table, workloads = "*";
  std::vector<std::string> make, judge;
  bool force = false;
};

/// The shapes of the workloads that are asked for.
std::vector<ShapeTimes> those_of(const std::vector<ShapeTimes>& all, const std::string& workloads) {
  return choose(all, workloads, "measured shape",
                [](const ShapeTimes& t) { return std::vector<std::string>{t.workload}; });
}

/// N,D,K
ProblemShape shape_from(const ChooseWords& words) {
  const std::vector<std::string> numbers = split(words.shape);
  ProblemShape shape{.type = words.type, .filled = words.filled};
  double* const places[] = {&shape.n, &shape.d, &shape.k};
  bool right = numbers.size() == 3;
  for (size_t i = 0; right && i < 3; ++i) {
    try {
      size_t read = 0;
      *places[i] = std::stod(numbers[i], &read);
      right = read == numbers[i].size() && *places[i] >= 1 && *places[i] <= 1e15;
    } catch (const std::exception&) {
      right = false;
    }
  }
  if (!right) throw Error(fmt::format("'{}' is not N,D,K: as in ladder choose 300000,408,5000", words.shape));
  return shape;
}

std::vector<ShapeTimes> times_of(const std::string& file) {
  const json record = read_record(file);
  if (record.at("schema_version") != record_version)
    throw Error(fmt::format("{} is a record of schema version {}, which lacks what a choice needs: measure it anew",
                            file, record.at("schema_version").dump()));
  return times_in(record);
}

/// The shapes of several records; of a variant that two of them timed on a shape, the record named first counts.
/// `table`: a file that is no record, but the table.
std::vector<ShapeTimes> shapes_of(const std::vector<std::string>& files, const std::string& table = "") {
  std::vector<ShapeTimes> all;
  for (const std::string& file : files) {
    for (ShapeTimes& times : file == table ? read_choice(file) : times_of(file)) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const ShapeTimes& t) {
        return t.device == times.device && t.machine == times.machine && t.workload == times.workload;
      });
      if (same == all.end())
        all.push_back(std::move(times));
      else
        same->ms.merge(times.ms);
    }
  }
  return all;
}

int make_table(const ChooseWords& words) {
  const FileKind table_of_choices = json_kind("table of choices", {"schema_version", "entries"}, {"rows"});
  need_place("--table", words.table, table_of_choices, {words.make.begin(), words.make.end()}, words.force);
  std::vector<ShapeTimes> table = shapes_of(words.make);
  if (table.empty()) throw Error("no row of these records is a solve that ran and was found right: name others");
  table = those_of(table, words.workloads);
  write_choice(words.table, table);
  fmt::print("{}: {} shapes\n", words.table, table.size());
  return 0;
}

/// How much slower the choice, or the fastest of the first `tries`, is than the fastest of all, shape by shape. A shape
/// is never judged by its own times.
int judge(const std::vector<ShapeTimes>& table, const std::vector<ShapeTimes>& judged, int tries,
          const std::function<bool(const std::string&)>& eligible) {
  size_t all = 0;
  std::vector<std::pair<double, std::string>> missed;
  for (const ShapeTimes& times : judged) {
    std::vector<ShapeTimes> others;
    for (const ShapeTimes& t : table) {
      if (t.workload != times.workload || t.device != times.device) others.push_back(t);
    }
    const Choice choice = choose_variant(others, times.device, times.machine, times.shape, eligible);
    std::string best, chosen, passed_over;
    int tried = 0;
    for (const auto& [id, ms] : times.ms) {
      if (eligible(id) && (best.empty() || ms < times.ms.at(best))) best = id;
    }
    // What refuses the shape has no time here: the next is taken, as a run does.
    for (const Candidate& c : choice.ranking) {
      if (tried == tries) break;
      const auto found = times.ms.find(c.variant);
      if (found == times.ms.end()) {
        passed_over += (passed_over.empty() ? "" : ", ") + c.variant;
        continue;
      }
      ++tried;
      if (chosen.empty() || found->second < times.ms.at(chosen)) chosen = c.variant;
    }
    if (best.empty() || chosen.empty()) {
      fmt::print("{:<28} {:<44} not judged: no rung that may be chosen has a time {}\n", times.workload,
                 to_text(times.shape), best.empty() ? "here" : "both here and in the table");
      continue;
    }
    const double ratio = times.ms.at(chosen) / times.ms.at(best);
    ++all;
    if (ratio > 1.1) missed.emplace_back(ratio, times.workload);
    fmt::print("{:<28} {:<44} {:<24} {:5.2f}{}{}\n", times.workload, to_text(times.shape), chosen, ratio,
               chosen == best ? "" : "  fastest: " + best, passed_over.empty() ? "" : "  no time here: " + passed_over);
  }
  fmt::print("within 10 % of the fastest on {} of {} shapes\n", all - missed.size(), all);
  std::sort(missed.rbegin(), missed.rend());
  std::string names;
  for (const auto& [ratio, workload] : missed)
    names += fmt::format("{}{} ({:.2f})", names.empty() ? "" : ", ", workload, ratio);
  if (!names.empty()) fmt::print("missed, the worst first: {}\n", names);
  return 0;
}

int choose_one(ChooseWords words) {
  if (words.table.empty()) words.table = (source_folder() / "results" / "choice.json").string();
  if (!words.make.empty()) return make_table(words);
  const ProblemShape shape = words.judge.empty() ? shape_from(words) : ProblemShape();
  const std::vector<ShapeTimes> table = read_choice(words.table);
  const std::vector<Variant> variants = find_variants(module_folders({}));
  const auto eligible = [&](const std::string& id) {
    return std::any_of(variants.begin(), variants.end(),
                       [&](const Variant& v) { return v.id == id && may_be_chosen(v); });
  };
  if (!words.judge.empty())
    return judge(table, those_of(shapes_of(words.judge, words.table), words.workloads), words.tries, eligible);
  const Choice choice = choose_variant(table, words.device, words.machine, shape, eligible);
  if (choice.ranking.empty())
    throw Error(fmt::format("{} has no times for the device {}: measure some, and `ladder choose --make`", words.table,
                            words.device));
  fmt::print("{}\n\n", reason(choice, shape));
  for (size_t i = 0; i < std::min<size_t>(choice.ranking.size(), 10); ++i)
    fmt::print("{:<24} {:9.4g} ms {:6.2f}\n", choice.ranking[i].variant, choice.ranking[i].ms,
               choice.ranking[i].ms / choice.ranking[0].ms);
  fmt::print("\nan iteration, and over that of the fastest, as expected from the measured shapes near by\n");
  return 0;
}

}  // namespace

Command choose_command(CLI::App& app) {
  const auto words = std::make_shared<ChooseWords>();
  auto* choose = app.add_subcommand("choose", "Which variant is fastest for a shape, by measured ones");
  auto* shape = choose->add_option("shape", words->shape, "N,D,K");
  choose->add_option("--type", words->type, "Element type")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->capture_default_str();
  choose->add_option("--filled", words->filled, "Percent of the coordinates that are not zero")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  choose->add_option("--device", words->device, "cuda or cpu")
      ->check(CLI::IsMember({"cuda", "cpu"}))
      ->capture_default_str();
  choose->add_option("--machine", words->machine, "Name of the GPU or processor, where the table has several");
  choose->add_option("--table", words->table, "The table (default: results/choice.json of the checkout)");
  auto* make = choose->add_option("--make", words->make, "Write the table from these records")->excludes(shape);
  choose->add_flag("--force", words->force, "With --make: the table may replace another file")->needs(make);
  choose
      ->add_option("--judge", words->judge,
                   "Print how much slower the choice is than the fastest variant on the shapes of these records; the "
                   "table itself may be named, too: each of its shapes is judged by the others")
      ->excludes(shape)
      ->excludes(make);
  choose
      ->add_option("--tries", words->tries,
                   "With --judge: the fastest of so many is taken, as ladder run --variants auto --tries does")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  choose
      ->add_option("--workloads", words->workloads,
                   "Of the records of --make or --judge, these shapes alone: globs, with commas between them")
      ->excludes(shape)
      ->capture_default_str();
  return {choose, [words] {
            if (words->shape.empty() && words->make.empty() && words->judge.empty())
              throw Error("name a shape, N,D,K: as in ladder choose 300000,408,5000");
            return choose_one(*words);
          }};
}

}  // namespace ladder
