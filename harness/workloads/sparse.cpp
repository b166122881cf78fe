#include "workloads/sparse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/parallel.hpp"

namespace ladder {
namespace fs = std::filesystem;

namespace {

constexpr size_t grain = 1024;  // rows that a thread takes at a time

template <class To, class From>
void expand(const NpyFile& row_begin, const NpyFile& column, const NpyFile& value, NpyWriter& writer, size_t columns) {
  const int64_t* begin = row_begin.data<int64_t>();
  const int32_t* at = column.data<int32_t>();
  const From* from = value.data<From>();
  To* to = writer.data<To>();
  parallel_pieces(row_begin.size() - 1, grain, [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      for (int64_t e = begin[i]; e < begin[i + 1]; ++e) to[i * columns + size_t(at[e])] = To(from[e]);
  });
}

template <class To, class From>
void convert(const NpyFile& value, const std::string& path) {
  const From* from = value.data<From>();
  write_npy(path, std::vector<To>(from, from + value.size()).data(), {value.size()});
}

}  // namespace

bool SparseFile::exists(const std::string& stem) { return fs::exists(stem + ".row_begin.npy"); }

SparseFile::SparseFile(const std::string& stem, int64_t columns)
    : stem_(stem),
      columns_(columns),
      row_begin_(stem + ".row_begin.npy"),
      column_(stem + ".column.npy"),
      value_(stem + ".value.npy") {
  const int64_t entries = int64_t(column_.size());
  if (row_begin_.size() < 2)
    throw Error(fmt::format("{} holds {} numbers: at least one row needs two, its begin and its end", row_begin_.path(),
                            row_begin_.size()));
  if (value_.size() != column_.size())
    throw Error(fmt::format("{} holds {} values and {} {} columns: each entry needs one of both", value_.path(),
                            value_.size(), column_.path(), entries));
  if (value_.type() != ElementType::f32 && value_.type() != ElementType::f64)
    throw Error(fmt::format("{} does not hold floating-point numbers: save it as float32 or float64", value_.path()));
  column_.data<int32_t>();  // throws where it holds anything else
  const int64_t* begin = row_begin_.data<int64_t>();
  if (begin[0] != 0)
    throw Error(fmt::format("{}: row 0 begins at entry {}, where the first entry is 0", row_begin_.path(), begin[0]));
  for (int64_t i = 0; i < rows(); ++i)
    if (begin[i + 1] < begin[i])
      throw Error(fmt::format("{}: row {} begins at entry {} and ends before entry {}: rows follow each other",
                              row_begin_.path(), i, begin[i], begin[i + 1]));
  if (begin[rows()] != entries)
    throw Error(fmt::format("{}: the last row ends after entry {} of {}: rows hold all entries", row_begin_.path(),
                            begin[rows()], entries));
  std::vector<std::string> faults(pieces(size_t(rows()), grain));
  parallel_pieces(size_t(rows()), grain, [&](size_t piece, size_t first, size_t last) {
    for (size_t i = first; i < last && faults[piece].empty(); ++i) faults[piece] = fault_of_row(int64_t(i));
  });
  const auto first =
      std::find_if(faults.begin(), faults.end(), [](const std::string& fault) { return !fault.empty(); });
  if (first != faults.end()) throw Error(*first);
}

std::string SparseFile::fault_of_row(int64_t row) const {
  const int64_t* begin = row_begin_.data<int64_t>();
  const int32_t* column = column_.data<int32_t>();
  int64_t before = -1;
  for (int64_t e = begin[row]; e < begin[row + 1]; before = column[e++]) {
    if (column[e] < 0 || column[e] >= columns_)
      return fmt::format("{}: row {} has an entry in column {}: columns are 0 to {}", column_.path(), row, column[e],
                         columns_ - 1);
    if (column[e] == before)
      return fmt::format("{}: row {} has two entries in column {}: add them up, or keep one", column_.path(), row,
                         before);
    if (column[e] < before)
      return fmt::format("{}: row {} has column {} after column {}: sort the entries of each row by column",
                         column_.path(), row, column[e], before);
  }
  return "";
}

void SparseFile::write_dense(const fs::path& path, ElementType type) const {
  NpyWriter writer(path.string(), type, {size_t(rows()), size_t(columns_)});
  const bool from_f32 = value_.type() == ElementType::f32;
  const auto fill = [&](auto expand_as) { expand_as(row_begin_, column_, value_, writer, size_t(columns_)); };
  if (type == ElementType::f32)
    fill(from_f32 ? expand<float, float> : expand<float, double>);
  else
    fill(from_f32 ? expand<double, float> : expand<double, double>);
  writer.commit();
}

void SparseFile::write_as(const std::string& stem, ElementType type) const {
  for (const char* part : {".row_begin.npy", ".column.npy"})
    fs::create_symlink(fs::absolute(stem_ + part), stem + part);
  if (type == ElementType::f32)
    convert<float, double>(value_, stem + ".value.npy");
  else
    convert<double, float>(value_, stem + ".value.npy");
}

}  // namespace ladder
