// ladder doctor: what this machine has of all that the ladder can use, what each missing thing costs, and the command
// that mends it.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "records/profile.hpp"
#include "runner/child.hpp"
#include "runner/devices.hpp"
#include "runner/profile.hpp"
#include "sandbox/sandbox.hpp"

namespace ladder {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// One thing that the ladder uses.
struct Diagnosis {
  std::string name;
  std::string status;  ///< ok, limited (it works, but not wholly) or missing
  std::string found;   ///< what is here, or why not
  std::string costs;   ///< what cannot be done for lack of it; empty where all is well
  std::string mend;    ///< the command that mends it
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The first word of a text that begins with a digit.
std::string version_in(const std::string& text) {
  const size_t from = text.find_first_of("0123456789");
  return from == std::string::npos ? "" : text.substr(from, text.find_first_of(" ,\n)", from) - from);
}

Diagnosis find_compiler() {
  std::string found, missing;
  for (const auto& [tool, question] : std::map<std::string, std::string>{
           {"g++", "g++ -dumpfullversion"}, {"cmake", "cmake --version"}, {"ninja", "ninja --version"}}) {
    const std::string version = version_in(output_of(question));
    if (version.empty())
      missing += (missing.empty() ? "" : ", ") + tool;
    else
      found += (found.empty() ? "" : ", ") + tool + " " + version;
  }
  if (missing.empty()) return {"compiler", "ok", found, "", ""};
  return {"compiler", "missing", "no " + missing + (found.empty() ? "" : " (but " + found + ")"),
          "no variant can be built: those that are built still run", "./run_all.sh setup"};
}

Diagnosis find_nvcc() {
  const bool in_path = !output_of("command -v nvcc").empty();
  const std::string program = in_path ? "nvcc" : "/usr/local/cuda/bin/nvcc";
  const std::string words = output_of(program + " --version");
  const size_t release = words.find("release ");
  if (release == std::string::npos)
    return {"nvcc", "missing", "no CUDA compiler",
            "nothing is built for a GPU; the same .cu text is built and run on the CPU device",
            "install NVIDIA's CUDA toolkit (https://developer.nvidia.com/cuda-downloads), then ./run_all.sh build"};
  return {
      "nvcc", "ok",
      version_in(words.substr(release)) + (in_path ? "" : " (" + program + ", not in the PATH: run_all.sh adds it)"),
      "", ""};
}

Diagnosis find_driver() {
  std::ifstream in("/proc/driver/nvidia/version");
  const std::string words(std::istreambuf_iterator<char>(in), {});
  const size_t at = words.find("x86_64") == std::string::npos ? words.find("Module") : words.find("x86_64");
  if (words.empty())
    return {"driver", "missing", "no NVIDIA driver is loaded (/proc/driver/nvidia)", "no GPU can be used",
            "where there is a GPU: install NVIDIA's driver (Debian: apt-get install nvidia-driver), restart"};
  return {"driver", "ok", at == std::string::npos ? first_line(words) : version_in(words.substr(at + 6)), "", ""};
}

Diagnosis find_gpu(const json& gpus) {
  std::string found;
  for (const json& gpu : gpus) {
    found += fmt::format("{}{}: {}, compute capability {}, {} multiprocessors, {:.0f} GiB", found.empty() ? "" : "; ",
                         gpu.at("ordinal").get<int>(), gpu.at("name").get<std::string>(),
                         gpu.value("compute_capability", "unknown"), gpu.at("multiprocessors").get<int>(),
                         gpu.at("memory_bytes").get<double>() / (1 << 30));
  }
  if (!found.empty()) return {"GPU", "ok", found, "", ""};
  const bool built = fs::exists(worker(DeviceKind::cuda));
  return {"GPU", "missing", why_no_gpu(),
          "no time of a GPU: rungs are validated on the CPU device; results/ has the times and counters of others",
          built ? "a machine with a GPU; until then build/ladder show results/DEVICE/record.json"
                : "where there is a GPU: ./run_all.sh build; until then build/ladder show results/DEVICE/record.json"};
}

/// Is reading counters kept to the administrator? Empty where the driver does not say.
std::string admin_only() {
  std::ifstream in("/proc/driver/nvidia/params");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("RmProfilingAdminOnly:", 0) == 0) return version_in(line);
  }
  return "";
}

/// Tries to count something: one small kernel under ncu. Why that failed; empty where it did not.
std::string why_no_count(const Ncu& ncu, int ordinal) {
  const Scratch scratch;
  const fs::path log = scratch.path / "ncu.log";
  output_of(fmt::format("timeout 60 {} --clock-control none --metrics sm__cycles_active.sum --log-file {} {} probe {}",
                        quoted(ncu.program), quoted(log), quoted(worker(DeviceKind::cuda)), ordinal));
  const std::string words = fs::exists(log) ? read_whole(log) : "";
  if (const std::string why = why_no_counters(words); !why.empty()) return why;
  if (words.find("sm__cycles_active.sum") != std::string::npos && words.find("==ERROR==") == std::string::npos)
    return "";
  const size_t error = words.find("==ERROR==");
  return error == std::string::npos ? "ncu counted nothing of a small kernel within 60 s"
                                    : "ncu: " + first_line(words.substr(error + 10));
}

Diagnosis find_profiler(const json& gpus) {
  const std::string costs = "no counters: `ladder profile` shows the committed ones";
  const std::optional<Ncu> ncu = find_ncu();
  const std::string only = admin_only();
  const std::string rule = only.empty() ? "" : ", RmProfilingAdminOnly " + only;
  if (!ncu) return {"ncu", "missing", "no Nsight Compute" + rule, costs, how_to_get_ncu()};
  const std::string found = "ncu " + ncu->version + rule;
  if (gpus.empty()) return {"ncu", "limited", found + ", nothing to profile", costs, "a machine with a GPU"};
  const std::string why = why_no_count(*ncu, gpus[0].at("ordinal"));
  if (why.empty()) return {"ncu", "ok", found + ", counters can be read", "", ""};
  return {"ncu", "limited", found + ", but counters cannot be read", costs, why};
}

/// Of the first GPU: where its clock and its power stand.
Diagnosis find_clocks() {
  const std::string line = first_line(
      output_of("timeout 20 nvidia-smi --query-gpu=clocks.sm,clocks.max.sm,power.draw,power.limit,power.max_limit "
                "--format=csv,noheader,nounits"));
  std::vector<double> values;
  for (const std::string& word : split(line)) values.push_back(std::atof(word.c_str()));
  if (values.size() != 5)
    return {"clocks", "missing", "nvidia-smi says nothing of clocks and power",
            "not known whether a power limit slows the GPU; runs watch its clock all the same",
            "nvidia-smi comes with the driver"};
  const std::string found = fmt::format("SM now at {:.0f} MHz, at most {:.0f}; {:.0f} W, limit {:.0f} of {:.0f} W",
                                        values[0], values[1], values[2], values[3], values[4]);
  if (values[3] > 0 && values[3] < values[4])
    return {"clocks", "limited", found, "times are those of a slower card: do not set them beside a full one's",
            fmt::format("where the machine is yours: nvidia-smi -pl {:.0f}", values[4])};
  return {"clocks", "ok", found, "", ""};
}

/// The Python that run_all.sh would use; empty where there is none.
std::string which_python() { return first_line(output_of(quoted(source_folder() / "run_all.sh") + " --which-python")); }

Diagnosis find_python(const std::string& python) {
  const std::string mend = "./run_all.sh setup (with network: makes .venv)";
  if (python.empty())
    return {"Python", "missing", "no Python from 3.11 on", "no pictures, no real data sets, no peers, no Python tests",
            mend};
  const char* question =
      "import importlib.util as u, platform\n"
      "names = 'numpy scipy sklearn PIL matplotlib bokeh jsonschema_rs pytest ruff'.split()\n"
      "print(platform.python_version())\n"
      "print(*[n for n in names if not u.find_spec(n)])\n"
      "print(*[n for n in 'torch faiss cuvs'.split() if u.find_spec(n)])";
  std::istringstream answer(
      output_of(fmt::format("cd {} && {} -c \"{}\"", quoted(source_folder()), quoted(python), question)));
  std::string version, lacks, peers;
  std::getline(answer, version), std::getline(answer, lacks), std::getline(answer, peers);
  const std::string found = python + " " + version + (peers.empty() ? "" : ", with " + peers);
  if (lacks.empty()) return {"Python", "ok", found, "", ""};
  static const std::map<std::string, std::string> needs = {
      {"numpy", "real data sets"}, {"scipy", "its peer"},
      {"sklearn", "its peers"},    {"PIL", "photographs"},
      {"matplotlib", "pictures"},  {"bokeh", "explorer"},
      {"pytest", "tests"},         {"jsonschema_rs", "checks of records"},
      {"ruff", "checks of style"}};
  std::string costs;
  std::istringstream words(lacks);
  for (std::string word; words >> word;)
    costs += fmt::format("{}{} ({})", costs.empty() ? "no " : ", ", needs.at(word), word);
  return {"Python", "limited", found, costs, mend};
}

/// Why data are missing, without the names that differ from one to the next: of data sets, files and servers.
std::string kind_of_reason(const std::string& reason) {
  static const std::string absent = " is not in LADDER_DATA", tried = " could not be fetched";
  if (const size_t place = reason.find(absent); place != std::string::npos) {
    const size_t end = reason.find(tried, place);
    return "a file" + reason.substr(place, end == std::string::npos ? end : end + tried.size() - place);
  }
  return reason.substr(0, reason.find(": run"));  // "not prepared yet: run datasets/prepare.py 'NAME'"
}

/// Data by family: one finding for all that is here, one for each reason why some is not.
std::vector<Diagnosis> find_data(const std::string& python) {
  std::vector<std::string> here;
  std::map<std::string, std::vector<std::string>> missing;  // families, by reason
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Workload& w : load_workloads()) {
    if (w.family.ends_with("_tiny")) continue;  // parts of the others, and of no lesson
    if (w.missing.empty())
      add(here, w.family);
    else
      add(missing[kind_of_reason(w.missing)], w.family);
  }
  std::vector<Diagnosis> findings;
  if (!here.empty()) findings.push_back({"data", "ok", listed(here) + " (found, or generated when first run)", "", ""});
  for (const auto& [reason, families] : missing) {
    std::string globs;
    for (const std::string& family : families) globs += (globs.empty() ? "" : " ") + fmt::format("'{}*'", family);
    findings.push_back({"data", "missing", listed(families) + ": " + reason,
                        "their workloads are left out of every run",
                        fmt::format("{} datasets/prepare.py {}", python.empty() ? "python3" : python, globs)});
  }
  return findings;
}

Diagnosis find_build(const std::string& preset, const std::string& folder, const std::string& costs) {
  const fs::path build = source_folder() / folder;
  const std::string mend = preset == "default"
                               ? "./run_all.sh build"
                               : fmt::format("cmake --preset {} && cmake --build --preset {}", preset, preset);
  const std::string name = "build";
  if (!fs::exists(build / "ladder_worker_simt"))
    return {name, "missing", preset + ": not in " + folder + "/", costs, mend};
  std::ifstream expected(build / "variants" / "expected.txt");
  int all = 0, there = 0;
  for (std::string line; std::getline(expected, line);) {
    ++all;
    const fs::path stem = build / "variants" / line;
    there += fs::exists(stem.string() + ".so") || fs::exists(stem.string() + ".py");
  }
  const std::string found = fmt::format("{}: {}/, {} of {} modules{}", preset, folder, there, all,
                                        fs::exists(build / "ladder_worker_cuda") ? ", with CUDA" : ", for the CPU");
  if (there == all) return {name, "ok", found, "", ""};
  return {name, "limited", found, "the other variants cannot run from there", mend};
}

/// The files of such a name in results/ and its folders, with commas between them.
std::string results_named(const std::string& pattern) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& device : fs::directory_iterator(source_folder() / "results", none)) {
    for (const auto& file : fs::directory_iterator(device.path(), none)) {
      if (matches(pattern, file.path().filename().string()))
        found.push_back(device.path().filename().string() + "/" + file.path().filename().string());
    }
  }
  for (const auto& file : fs::directory_iterator(source_folder() / "results", none)) {
    if (file.is_regular_file() && matches(pattern, file.path().filename().string()))
      found.push_back(file.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return listed(found);
}

Diagnosis find_sandbox() {
  try {
    return {"sandbox", "ok", to_string(sandbox_way()), "", ""};
  } catch (const Error& error) {
    return {"sandbox", "missing", error.what(), "`ladder run --sandbox` and `ladder grade` refuse to run",
            "sudo apt-get install bubblewrap"};
  }
}

std::vector<Diagnosis> find_results() {
  std::vector<Diagnosis> findings;
  const auto examine_results = [&](const char* name, const char* pattern, const char* costs, const char* mend) {
    const std::string found = results_named(pattern);
    if (found.empty())
      findings.push_back({name, "missing", std::string("no ") + pattern + " in results/", costs, mend});
    else
      findings.push_back({name, "ok", found, "", ""});
  };
  examine_results("records", "record.json", "no times to show", "./run_all.sh run draw");
  examine_results("tuned", "tuned.json", "variants run with the standard values of their axes",
                  "build/ladder tune VARIANT");
  examine_results("profiles", "profile.json", "no counters to show", "on a GPU: build/ladder profile --all");
  return findings;
}

std::vector<Diagnosis> examine() {
  json gpus = json::array();
  for (const json& device : find_devices()) {
    if (device.at("kind") == "cuda") gpus.push_back(device);
  }
  std::vector<Diagnosis> findings = {find_compiler(), find_nvcc(), find_driver(), find_gpu(gpus), find_profiler(gpus)};
  if (!gpus.empty()) findings.push_back(find_clocks());
  const std::string python = which_python();
  findings.push_back(find_python(python));
  for (Diagnosis& finding : find_data(python)) findings.push_back(std::move(finding));
  findings.push_back(find_build("default", "build", "no ladder to run, unless the preset cpu is built"));
  findings.push_back(find_build("cpu", "build-cpu", "nothing, if the default is built: it is the same without CUDA"));
  findings.push_back(find_build("asan", "build-asan", "the first `ladder check` builds it, which takes minutes"));
  findings.push_back(find_sandbox());
  for (Diagnosis& finding : find_results()) findings.push_back(std::move(finding));
  return findings;
}

void print(const std::vector<Diagnosis>& findings) {
  for (const Diagnosis& f : findings) {
    fmt::print("{:<8} {:<9} {}\n", f.status, f.name, f.found);
    if (!f.costs.empty()) fmt::print("{:<18}   costs: {}\n", "", f.costs);
    if (!f.mend.empty()) fmt::print("{:<18}   fix:   {}\n", "", f.mend);
  }
}

}  // namespace

Command doctor_command(CLI::App& app) {
  const auto as_json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand(
      "doctor", "Report which tools, data and builds exist, what each missing one costs, and how to fix it");
  command->add_flag("--json", *as_json, "For programs");
  command->footer("Always exits 0: missing tools are reported, not errors.");
  return {command, [as_json] {
            const std::vector<Diagnosis> findings = examine();
            if (!*as_json) {
              print(findings);
              return 0;
            }
            json list = json::array();
            for (const Diagnosis& f : findings) {
              const json finding = {
                  {"name", f.name}, {"status", f.status}, {"found", f.found}, {"costs", f.costs}, {"mend", f.mend}};
              list.push_back(finding);
            }
            std::cout << json{{"findings", list}}.dump(1) << "\n";
            return 0;
          }};
}

}  // namespace ladder
