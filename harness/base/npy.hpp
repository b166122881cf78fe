// Arrays in files: NumPy's .npy format, read by mapping (never copied) and written whole or not at all.
// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// Only what the harness computes with is taken: little-endian 4- and 8-byte floats and integers in C order. Every
// error names the file, says what was found in it and what to do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace ladder {

enum class ElementType { f32, f64, i32, i64 };
size_t element_bytes(ElementType type);
/// NumPy's name of it: "<f4".
const char* descr(ElementType type);

template <class T>
constexpr ElementType element_type = [] {
  static_assert(sizeof(T) == 0, "a .npy file here holds float, double, int32_t or int64_t");
  return ElementType::f32;
}();
template <>
inline constexpr ElementType element_type<float> = ElementType::f32;
template <>
inline constexpr ElementType element_type<double> = ElementType::f64;
template <>
inline constexpr ElementType element_type<int32_t> = ElementType::i32;
template <>
inline constexpr ElementType element_type<int64_t> = ElementType::i64;

/// A .npy file mapped read-only. Pages come from the file on first touch and are shared by all processes that map it.
class NpyFile {
 public:
  enum class Order { c, any };
  /// Maps `path`; throws Error where the file is not an array that the harness can read, or not in an accepted order.
  explicit NpyFile(const std::string& path, Order accepted = Order::c);
  ~NpyFile();
  NpyFile(NpyFile&& other) noexcept;
  NpyFile& operator=(NpyFile&& other) noexcept;

  const std::string& path() const { return path_; }
  ElementType type() const { return type_; }
  const std::vector<size_t>& shape() const { return shape_; }
  /// Are the elements in Fortran order (column by column)? Never, but where any order was accepted.
  bool fortran_order() const { return fortran_order_; }
  /// Elements: the product of the shape.
  size_t size() const { return size_; }
  /// Of a matrix (n x d): its extents. Throws Error where the file holds no matrix.
  size_t rows() const;
  size_t columns() const;

  /// The elements, in the file's order. Throws Error where the file holds another type.
  template <class T>
  const T* data() const {
    require(element_type<T>);
    return static_cast<const T*>(data_);
  }
  /// The elements whatever their type, for hash64.
  const void* bytes() const { return data_; }
  size_t byte_count() const { return size_ * element_bytes(type_); }

 private:
  void require(ElementType type) const;
  void require_matrix() const;

  std::string path_;
  ElementType type_ = ElementType::f32;
  std::vector<size_t> shape_;
  bool fortran_order_ = false;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  const void* data_ = nullptr;
};

/// A .npy file in the making: it has its final size from the start and is filled through a mapping, so it may be larger
/// than memory. It takes its name at commit(); one that is dropped before leaves nothing behind.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, ElementType type, const std::vector<size_t>& shape);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  /// The elements to fill, on a 64-byte boundary, zero at first.
  template <class T>
  T* data() {
    require(element_type<T>);
    return static_cast<T*>(data_);
  }
  /// Gives the file its name, in place of an earlier one.
  void commit();

 private:
  void require(ElementType type) const;
  void discard() noexcept;

  std::string path_, temporary_;
  ElementType type_;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  void* data_ = nullptr;
};

/// Writes `data` (C order, product of `shape` elements) to `path`.
template <class T>
void write_npy(const std::string& path, const T* data, const std::vector<size_t>& shape);

/// Writes a matrix in Fortran order to `path` in C order.
void write_in_c_order(const NpyFile& matrix, const std::string& path);

/// Row and column of a value that is NaN or infinite.
struct Nonfinite {
  size_t row, column;
  double value;
};
/// The first such value of points (n x d): lowest row, then lowest column.
template <class T>
std::optional<Nonfinite> find_nonfinite(const T* points, size_t n, size_t d);

/// The first row of points (n x d) that is the zero vector, which has no direction, or -1.
template <class T>
int64_t find_zero_row(const T* points, int64_t n, int d);

/// Of `count` values, those that are not zero.
template <class T>
size_t count_nonzero(const T* values, size_t count);

/// A fingerprint of the data, as 16 hexadecimal digits: XXH64 (seed 0) over the little-endian XXH64 values (seed 0) of
/// each MiB of `data`, the last one being shorter. Not cryptographic: it tells data sets apart, not friend from foe.
std::string hash64(const void* data, size_t bytes);
/// hash64 of all bytes of a file. Throws Error where it cannot be read.
std::string hash_file(const std::filesystem::path& file);
/// XXH64 itself: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
uint64_t xxh64(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace ladder
