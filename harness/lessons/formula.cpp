#include "lessons/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.hpp"

namespace ladder {

namespace {

using Arguments = std::vector<double>;

double least(const Arguments& of) { return *std::min_element(of.begin(), of.end()); }
double most(const Arguments& of) { return *std::max_element(of.begin(), of.end()); }

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// One pass from left to right, a function per level of precedence.
class Reader {
 public:
  Reader(const std::string& formula, const FormulaNames& names) : text_(formula), names_(names) {}

  double whole() {
    const double value = sum();
    if (at_ < text_.size()) fail(fmt::format("'{}' follows what is whole", text_.substr(at_)));
    return value;
  }

 private:
  double sum() {
    double value = product();
    for (;;) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }
  double product() {
    double value = factor();
    for (;;) {
      if (take('*')) {
        value *= factor();
      } else if (take('/')) {
        const double by = factor();
        if (by == 0) fail("divides by zero");
        value /= by;
      } else {
        return value;
      }
    }
  }
  double factor() {
    if (++depth_ > 64) fail("is nested more than 64 deep");
    const double value = take('-') ? -factor() : take('(') ? in_parentheses() : atom();
    --depth_;
    return value;
  }
  double in_parentheses() {
    const double value = sum();
    need(')');
    return value;
  }
  double atom() {
    blanks();
    if (at_ == text_.size()) fail("ends where a number or a name is due");
    if (starts_name(text_[at_])) return named();
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) fail(fmt::format("'{}' is no number", text_.substr(at_)));
    at_ += size_t(end - begin);
    return value;
  }
  double named() {
    const size_t begin = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    const std::string name = text_.substr(begin, at_ - begin);
    if (take('(')) return called(name);
    const auto found = names_.values.find(name);
    if (found == names_.values.end()) fail(fmt::format("'{}' is not known here", name));
    return found->second;
  }
  double called(const std::string& name) {
    Arguments arguments;
    do arguments.push_back(sum());
    while (take(','));
    need(')');
    const bool one = arguments.size() == 1;
    if (name == "ceil" && one) return std::ceil(arguments[0]);
    if (name == "floor" && one) return std::floor(arguments[0]);
    if (name == "min" && !one) return least(arguments);
    if (name == "max" && !one) return most(arguments);
    const auto found = names_.functions.find(name);
    if (found == names_.functions.end()) fail(fmt::format("there is no function '{}' of {}", name, arguments.size()));
    return found->second(arguments);
  }

  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    blanks();
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(fmt::format("lacks a '{}'", c));
  }
  [[noreturn]] void fail(const std::string& why) const { throw Error(fmt::format("formula '{}': {}", text_, why)); }

  const std::string& text_;
  const FormulaNames& names_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

double evaluate(const std::string& formula, const FormulaNames& names) { return Reader(formula, names).whole(); }

std::vector<std::string> values_in(const std::string& formula) {
  std::vector<std::string> names;
  for (size_t at = 0; at < formula.size();) {
    if (!starts_name(formula[at])) {
      // What a number ends with (the e of 1e6) is no name.
      do ++at;
      while (at < formula.size() && in_name(formula[at]) && std::isdigit(static_cast<unsigned char>(formula[at - 1])));
      continue;
    }
    size_t end = at;
    while (end < formula.size() && in_name(formula[end])) ++end;
    const size_t next = formula.find_first_not_of(' ', end);
    const std::string name = formula.substr(at, end - at);
    const bool called = next != std::string::npos && formula[next] == '(';
    if (!called && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    at = end;
  }
  return names;
}

}  // namespace ladder
