// The text of a source as a compiler takes it: without comments, together with the files that it includes.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ladder {

/// C++ without comments and without the lines that open and close namespaces. Text in quotes is kept.
std::string without_comments(const std::string& text);

/// Python without the lines that hold only a comment or a docstring.
std::string without_python_comments(const std::string& code);

/// A file's lines of code: no blank lines, no includes. The files below `folder` among the includes, but for those in
/// its harness/, are appended to `parts`.
std::string code_lines(const std::filesystem::path& file, const std::string& code, const std::filesystem::path& folder,
                       std::vector<std::filesystem::path>& parts);

/// The place of the bracket that closes the one at `open`, in text without comments; npos where there is none. Text in
/// double quotes is skipped.
size_t closing(const std::string& code, size_t open);

/// Removes from `code` (without comments) what begins a line with `begin`, as "LADDER_LESSON(" or "CARD = {", up to the
/// bracket that closes it. Returns what was removed; empty where it is not there.
std::string take_statement(std::string& code, const std::string& begin);

/// A kernel that a file defines: a function marked `__global__`.
struct KernelText {
  std::string name;
  std::vector<std::string> parameters;  ///< their names
  std::vector<std::string> declared;    ///< the parameters as they are declared: "const T* __restrict__ x"
  size_t begin = 0, end = 0;            ///< of its body in the text, between the braces
};

/// The text with spaces in place of comments and of what stands in quotes; lines and places stay.
std::string code_alone(const std::string& text);

/// The parts of the text between two brackets that commas separate outside of further brackets, without white space
/// around them; angle brackets count as such.
std::vector<std::string> list_between(const std::string& code, size_t open, size_t close);

/// The kernels in the order of the text. Comments and text in quotes are no code.
std::vector<KernelText> kernels_of(const std::string& text);

using Parts = std::map<std::filesystem::path, std::string>;  ///< each part's lines of code

/// Adds a part, the parts below `folder` that it includes, and the file that implements it: X.cu beside X.cuh, X.cpp
/// beside X.hpp.
void add_part(const std::filesystem::path& part, const std::filesystem::path& folder, Parts& parts);

/// A fingerprint, as 16 hexadecimal digits, of what is compiled of a variant's file and of all files of the checkout at
/// `root` that it includes, directly or through others, or that implement those: their lines of code, and the lines
/// `// link:` and `// for cuda:`, which the build reads. Comments, blank lines, and where a file lies do not count; nor
/// does the harness, which is the same for all variants. The card counts, as the code that it is; the lesson
/// (contract/lesson.hpp) does not, which is read by people alone.
std::string source_hash(const std::filesystem::path& file, const std::filesystem::path& root);

}  // namespace ladder
