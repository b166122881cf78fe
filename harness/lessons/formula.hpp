// Arithmetic in text, as lessons state it: "2 * N * K * D / 32".
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ladder {

/// What a formula may name beside numbers. The functions min, max (of two and more), ceil and floor are always there.
struct FormulaNames {
  std::map<std::string, double> values;
  std::map<std::string, std::function<double(const std::vector<double>&)>> functions = {};
};

/// The value of a formula: numbers, names, + - * /, parentheses and functions, with the usual precedence. Throws Error,
/// which quotes the formula, where it is none, names what is not there, divides by zero, or nests more than 64 deep.
double evaluate(const std::string& formula, const FormulaNames& names);

/// The names of values that it has, each once, in their order; those of functions are left out.
std::vector<std::string> values_in(const std::string& formula);

}  // namespace ladder
