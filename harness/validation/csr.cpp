#include "validation/csr.hpp"

#include <vector>

#include "base/parallel.hpp"
#include "validation/bounds.hpp"

namespace ladder {
namespace {

/// What is wrong with row i, whose entries are known to lie within the arrays.
template <class T>
std::string fault_of_row(const Csr<T>& csr, int64_t i, int d, const T* point) {
  const std::string row = "row " + std::to_string(i);
  int32_t next = 0;  // the first column that has not been compared
  const auto left_out = [&](int32_t column) {
    return row + " leaves out column " + std::to_string(column) + ", where the point has " +
           number(double(point[column]));
  };
  for (int64_t entry = csr.row_begin[i]; entry < csr.row_begin[i + 1]; ++entry) {
    const int32_t column = csr.column[entry];
    if (column < 0 || column >= d)
      return row + " has an entry in column " + std::to_string(column) + ": columns are 0 to " + std::to_string(d - 1);
    if (column < next)
      return row + " has column " + std::to_string(column) + " after column " + std::to_string(next - 1) +
             ": columns ascend and do not repeat";
    for (; next < column; ++next)
      if (point[next] != 0) return left_out(next);
    if (!(csr.value[entry] == point[column]))
      return row + " has " + number(double(csr.value[entry])) + " in column " + std::to_string(column) +
             ", where the point has " + number(double(point[column]));
    next = column + 1;
  }
  for (; next < d; ++next)
    if (point[next] != 0) return left_out(next);
  return "";
}

}  // namespace

template <class T>
std::string check_csr(const Csr<T>& csr, int n, int d, int64_t nnz, const T* points) {
  if (csr.row_begin[0] != 0)
    return "the first row begins at entry " + std::to_string(csr.row_begin[0]) + " and not at 0";
  for (int64_t i = 0; i < n; ++i)
    if (csr.row_begin[i + 1] < csr.row_begin[i])
      return "row " + std::to_string(i) + " begins at entry " + std::to_string(csr.row_begin[i]) + " and ends at " +
             std::to_string(csr.row_begin[i + 1]) + ": row_begin must not descend";
  if (csr.row_begin[n] != nnz)
    return "the last row ends at entry " + std::to_string(csr.row_begin[n]) + " of " + std::to_string(nnz);
  constexpr size_t grain = 1024;
  std::vector<std::string> faults(pieces(size_t(n), grain));
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end && faults[piece].empty(); ++i)
      faults[piece] = fault_of_row(csr, int64_t(i), d, points + i * d);
  });
  for (const std::string& fault : faults)
    if (!fault.empty()) return fault;
  return "";
}
template std::string check_csr(const Csr<float>&, int, int, int64_t, const float*);
template std::string check_csr(const Csr<double>&, int, int, int64_t, const double*);

}  // namespace ladder
