// The commands of `ladder`: a file each, and what several of them need.
#pragma once
#include <fmt/format.h>
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/folders.hpp"
#include "workloads/variants.hpp"
#include "workloads/workloads.hpp"

namespace ladder {

/// A subcommand with its options, and what runs it once they are parsed: it returns the exit status.
struct Command {
  CLI::App* words;
  std::function<int()> run;
};

Command check_command(CLI::App& app);
Command choose_command(CLI::App& app);
Command compare_command(CLI::App& app);
Command count_command(CLI::App& app, const std::vector<std::string>& argv);
Command diff_command(CLI::App& app);
Command explain_command(CLI::App& app);
/// `argv` goes into the record.
Command join_command(CLI::App& app, const std::vector<std::string>& argv);
Command grade_command(CLI::App& app);
Command list_command(CLI::App& app);
Command new_command(CLI::App& app);
Command doctor_command(CLI::App& app);
Command predict_command(CLI::App& app);
/// `argv` goes into the record.
Command profile_command(CLI::App& app, const std::vector<std::string>& argv);
/// `argv` goes into the record.
Command run_command(CLI::App& app, const std::vector<std::string>& argv);
Command sandbox_command(CLI::App& app);
Command show_command(CLI::App& app);
/// `argv` goes into the record.
Command timeline_command(CLI::App& app, const std::vector<std::string>& argv);
/// `argv` goes into the record.
Command tune_command(CLI::App& app, const std::vector<std::string>& argv);

/// Throws Error where an option's value is empty, as that of an unset variable is, looks like another option, or is no
/// finite number where one is due.
void need_sound_values(const CLI::App& command);

/// What an option's number must be; the message says which value it was given, and what to give.
CLI::Validator above_zero();
CLI::Validator not_negative();

/// The words of a list with commas between them.
std::vector<std::string> split(const std::string& list);

/// Does the text match the pattern of * and ?, as a shell would have it?
inline bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

/// Those of `all` whose name (or one of whose names) matches one of the patterns; every pattern must match something.
template <class Item, class Names>
std::vector<Item> choose(const std::vector<Item>& all, const std::string& patterns, const char* what, Names names) {
  if (split(patterns).empty()) throw Error(fmt::format("no {} is named: `ladder list` shows them all", what));
  std::vector<Item> chosen;
  std::vector<bool> in(all.size(), false);
  for (const std::string& pattern : split(patterns)) {
    bool any = false;
    for (size_t i = 0; i < all.size(); ++i) {
      for (const std::string& name : names(all[i])) {
        if (matches(pattern, name)) any = in[i] = true;
      }
    }
    if (!any) throw Error(fmt::format("no {} matches '{}': `ladder list` shows them all", what, pattern));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (in[i]) chosen.push_back(all[i]);
  }
  return chosen;
}

/// Those that have kernels of their own for a GPU, with their modules' hashes. Throws Error where there are none.
std::vector<Variant> with_kernels(std::vector<Variant> variants);

/// Variants by their ids, workloads by their names and families.
std::vector<Variant> choose_variants(const std::vector<Variant>& all, const std::string& patterns);
std::vector<Workload> choose_workloads(const std::vector<Workload>& all, const std::string& patterns);

/// The CMake targets that build the modules of a variant's file in this build.
std::vector<std::string> targets_of(const std::filesystem::path& source);

/// Whether `ladder choose` may name this variant: a rung that uses the points as they are. Peers, kernel k-means,
/// initialisations and rungs that round the points are left out.
bool may_be_chosen(const Variant& variant);

/// Marks variants as broken, with the reason, if their card names a base that does not exist.
void need_bases(std::vector<Variant>& variants);

/// The folders that hold built variants: the program's own, and those of --modules.
std::vector<std::filesystem::path> module_folders(const std::vector<std::string>& more);

}  // namespace ladder
