// Points as compressed sparse rows in files, as datasets/prepare.py writes what never was dense: STEM.row_begin.npy
// (int64, n + 1), STEM.column.npy (int32) and STEM.value.npy (float32 or float64), the last two with one element per
// stored entry. A file may hold anything: entries are checked before they are read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/npy.hpp"

namespace ladder {

class SparseFile {
 public:
  /// Maps the three files of `stem` (".../news" for ".../news.row_begin.npy"), whose rows have `columns` columns, and
  /// looks at every entry. Throws Error for the first that cannot be: rows that do not follow each other, columns that
  /// do not ascend, repeat or are out of range, files whose lengths do not agree.
  SparseFile(const std::string& stem, int64_t columns);

  /// Are there files of this stem?
  static bool exists(const std::string& stem);

  int64_t rows() const { return int64_t(row_begin_.size()) - 1; }
  int64_t columns() const { return columns_; }
  ElementType type() const { return value_.type(); }

  /// The same points as a matrix (rows x columns) of elements `type`, f32 or f64.
  void write_dense(const std::filesystem::path& path, ElementType type) const;
  /// The three files under another stem, with values of the type that they do not have; the others are linked to.
  void write_as(const std::string& stem, ElementType type) const;

 private:
  std::string fault_of_row(int64_t row) const;

  std::string stem_;
  int64_t columns_;
  NpyFile row_begin_, column_, value_;
};

}  // namespace ladder
