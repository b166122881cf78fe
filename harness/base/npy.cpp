#include "base/npy.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/parallel.hpp"

namespace ladder {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are mapped as they lie in the file: little-endian");

constexpr char magic[] = "\x93NUMPY";
constexpr size_t magic_bytes = 6;
constexpr size_t alignment = 64;  // as numpy.save pads: whole cache lines, whole vector registers

[[noreturn]] void fail_on_system(const std::string& path, const std::string& attempt) {
  throw Error(path + ": " + attempt + " failed: " + std::strerror(errno));
}

/// "10 x 3", as messages name a shape.
std::string name_of(const std::vector<size_t>& shape) {
  std::string name;
  for (const size_t extent : shape) name += (name.empty() ? "" : " x ") + std::to_string(extent);
  return shape.empty() ? "a single value" : name;
}

/// bytes = product of the shape * element; false where that exceeds what a size can hold.
bool count_bytes(const std::vector<size_t>& shape, size_t element, size_t& count, size_t& bytes) {
  count = 1;
  for (const size_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count)) return false;
  return !__builtin_mul_overflow(count, element, &bytes) && bytes <= size_t(PTRDIFF_MAX);
}

/// The header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order and spacing.
struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<size_t> shape;
};

/// Reads the Python literal that a header is; each method takes one token or throws.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  Header parse() {
    Header header;
    bool have_descr = false, have_order = false, have_shape = false;
    expect('{', "an opening brace");
    while (!take('}')) {
      const std::string key = string("a key");
      expect(':', "a colon after '" + key + "'");
      if (key == "descr") {
        once(key, have_descr);
        if (peek() == '[')
          fail("structured elements ('descr' is a list)", "save the columns you need as one plain float array");
        header.descr = string("the element type");
      } else if (key == "fortran_order") {
        once(key, have_order);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        once(key, have_shape);
        header.shape = tuple();
      } else {
        fail("the unknown key '" + key + "'");
      }
      if (!take(',')) {
        expect('}', "a comma or a closing brace");
        break;
      }
    }
    skip_space();
    if (at_ < text_.size()) fail("text after the closing brace");
    if (!have_descr) fail("no key 'descr'");
    if (!have_order) fail("no key 'fortran_order'");
    if (!have_shape) fail("no key 'shape'");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& advice = "save it again with numpy.save") const {
    throw Error(path_ + ": its header has " + found + " at character " + std::to_string(at_) + ": " + advice);
  }
  void once(const std::string& key, bool& seen) const {
    if (std::exchange(seen, true)) fail("the key '" + key + "' twice");
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, const std::string& what) {
    if (take(c)) return;
    std::string found = "its end";
    if (at_ < text_.size()) found = {'\'', text_[at_], '\''};
    fail(found + " instead of " + what);
  }
  std::string string(const std::string& what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("no string for " + what);
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string without its end");
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    fail("neither True nor False for 'fortran_order'");
  }
  std::vector<size_t> tuple() {
    std::vector<size_t> values;
    expect('(', "the opening parenthesis of the shape");
    while (!take(')')) {
      values.push_back(integer());
      if (take(',')) continue;
      if (values.size() == 1) fail("a shape in parentheses that is no tuple");  // (3) is a number, (3,) a tuple
      expect(')', "a comma or a closing parenthesis");
      break;
    }
    return values;
  }
  size_t integer() {
    const char first = peek();
    if (first < '0' || first > '9') fail("no natural number in its shape");
    size_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, size_t(10), &value) ||
          __builtin_add_overflow(value, size_t(text_[at_] - '0'), &value))
        fail("a number in its shape that is beyond 64 bits");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  const std::string& path_;
  std::string_view text_;
  size_t at_ = 0;
};

ElementType type_of(const std::string& path, const std::string& name) {
  for (const ElementType type : {ElementType::f32, ElementType::f64, ElementType::i32, ElementType::i64})
    if (name == descr(type)) return type;
  if (name.starts_with('>'))
    throw Error(path + " is big-endian ('" + name + "'): save it with array.astype('<" + name.substr(1) + "')");
  throw Error(path + " has elements of type '" + name +
              "': save it with array.astype('<f4') or another of <f4 <f8 <i4 <i8");
}

uint64_t read_little(const unsigned char* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t(at[i]) << 8 * i;
  return value;
}

/// A whole header of version 1.0 (or 2.0 where it is longer than 1.0 can say), padded to a multiple of `alignment`.
std::string header_text(ElementType type, const std::vector<size_t>& shape) {
  std::string dictionary = std::string("{'descr': '") + descr(type) + "', 'fortran_order': False, 'shape': (";
  for (const size_t extent : shape) dictionary += std::to_string(extent) + ",";
  if (shape.size() > 1) dictionary.pop_back();
  dictionary += "), }";
  const bool is_long = dictionary.size() > 60000;
  const size_t length_bytes = is_long ? 4 : 2;
  const size_t before = magic_bytes + 2 + length_bytes;
  const size_t total = pieces(before + dictionary.size() + 1, alignment) * alignment;
  dictionary.append(total - before - dictionary.size() - 1, ' ').push_back('\n');
  std::string text(magic, magic_bytes);
  text += is_long ? '\2' : '\1';
  text += '\0';
  for (size_t i = 0; i < length_bytes; ++i) text += char(dictionary.size() >> 8 * i & 0xff);
  return text + dictionary;
}

/// A file descriptor that closes itself.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

size_t element_bytes(ElementType type) { return type == ElementType::f32 || type == ElementType::i32 ? 4 : 8; }

const char* descr(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return "<f4";
    case ElementType::f64:
      return "<f8";
    case ElementType::i32:
      return "<i4";
    case ElementType::i64:
      return "<i8";
  }
  return "?";
}

// --------------------------------------------------------------------------------------------------------------
// reading

NpyFile::NpyFile(const std::string& path, Order accepted) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe would wait for its writer
  if (file.fd < 0) fail_on_system(path, "opening it");
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail_on_system(path, "asking for its size");
  if (!S_ISREG(status.st_mode)) throw Error(path + " is not a regular file: give a .npy file");
  mapping_bytes_ = size_t(status.st_size);
  const std::string found = path + " holds " + std::to_string(mapping_bytes_) + " bytes";
  if (mapping_bytes_ < magic_bytes + 4) throw Error(found + ", less than a .npy header: save it with numpy.save");
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (mapping == MAP_FAILED) fail_on_system(path, "mapping it");
  mapping_ = mapping;
  try {
    const auto* bytes = static_cast<const unsigned char*>(mapping_);
    if (std::memcmp(bytes, magic, magic_bytes) != 0)
      throw Error(path + " is not a .npy file (it does not begin with \\x93NUMPY): save it with numpy.save");
    const int major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0)
      throw Error(path + " is of .npy version " + std::to_string(major) + "." + std::to_string(minor) +
                  ", this reads 1.0, 2.0 and 3.0: save it with numpy.save");
    const size_t length_bytes = major == 1 ? 2 : 4;
    const size_t before = magic_bytes + 2 + length_bytes;
    if (mapping_bytes_ < before) throw Error(found + ", less than a .npy header: save it with numpy.save");
    const size_t header_bytes = read_little(bytes + magic_bytes + 2, length_bytes);
    if (header_bytes > mapping_bytes_ - before)
      throw Error(found + ", its header alone claims " + std::to_string(before + header_bytes) +
                  ": the file was cut off, make it again");
    const Header header = HeaderParser(path_, {reinterpret_cast<const char*>(bytes) + before, header_bytes}).parse();
    type_ = type_of(path, header.descr);
    shape_ = header.shape;
    // A one-dimensional array is in both orders at once, and NumPy says C for it.
    fortran_order_ = header.fortran_order;
    if (fortran_order_ && accepted == Order::c)
      throw Error(path + " is in Fortran order: save it with numpy.ascontiguousarray(array)");
    const size_t offset = before + header_bytes;
    size_t data_bytes = 0;
    if (!count_bytes(shape_, element_bytes(type_), size_, data_bytes) || offset > size_t(PTRDIFF_MAX) - data_bytes)
      throw Error(path + " claims " + name_of(shape_) + " elements, more than memory can address: make the file again");
    if (mapping_bytes_ != offset + data_bytes)
      throw Error(found + ", its header (" + name_of(shape_) + " of " + descr(type_) + ") promises " +
                  std::to_string(offset + data_bytes) +
                  (mapping_bytes_ < offset + data_bytes ? ": the file was cut off, make it again"
                                                        : ": something was appended to it, make it again"));
    if (offset % element_bytes(type_) != 0)
      throw Error(path + " has its data at byte " + std::to_string(offset) + ", not a multiple of " +
                  std::to_string(element_bytes(type_)) + ": save it again with numpy.save");
    data_ = bytes + offset;
  } catch (...) {
    ::munmap(mapping_, mapping_bytes_);  // the destructor does not run for an object that was never made
    throw;
  }
}

NpyFile::~NpyFile() {
  if (mapping_) ::munmap(mapping_, mapping_bytes_);
}

NpyFile::NpyFile(NpyFile&& other) noexcept
    : path_(std::move(other.path_)),
      type_(other.type_),
      shape_(std::move(other.shape_)),
      fortran_order_(other.fortran_order_),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

NpyFile& NpyFile::operator=(NpyFile&& other) noexcept {
  NpyFile taken(std::move(other));
  std::swap(path_, taken.path_);
  std::swap(type_, taken.type_);
  std::swap(shape_, taken.shape_);
  std::swap(fortran_order_, taken.fortran_order_);
  std::swap(size_, taken.size_);
  std::swap(mapping_, taken.mapping_);
  std::swap(mapping_bytes_, taken.mapping_bytes_);
  std::swap(data_, taken.data_);
  return *this;
}

void NpyFile::require(ElementType type) const {
  if (type != type_)
    throw Error(path_ + " holds " + descr(type_) + " where " + descr(type) + " is needed: save it with array.astype('" +
                descr(type) + "')");
}

void NpyFile::require_matrix() const {
  if (shape_.size() != 2)
    throw Error(path_ + " has " + std::to_string(shape_.size()) + " dimensions (" + name_of(shape_) +
                ") where rows x columns are needed: save it with array.reshape(rows, columns)");
}

size_t NpyFile::rows() const {
  require_matrix();
  return shape_[0];
}

size_t NpyFile::columns() const {
  require_matrix();
  return shape_[1];
}

// ------------------------------------------------------------------------------------------------------------- writing

NpyWriter::NpyWriter(const std::string& path, ElementType type, const std::vector<size_t>& shape)
    : path_(path), type_(type) {
  const std::string header = header_text(type, shape);
  size_t count = 0, data_bytes = 0;
  if (!count_bytes(shape, element_bytes(type), count, data_bytes) || data_bytes > size_t(PTRDIFF_MAX) - header.size())
    throw Error(path + " was to hold " + name_of(shape) + " elements, more than memory can address: ask for fewer");
  const std::string temporary = temporary_beside(path).string();
  const Descriptor file{::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (file.fd < 0) fail_on_system(temporary, "creating it");
  temporary_ = temporary;
  mapping_bytes_ = header.size() + data_bytes;
  // Blocks are taken now: on a full disk a sparse file would end this process by SIGBUS, in the middle of a store.
  if (const int error = ::posix_fallocate(file.fd, 0, off_t(mapping_bytes_)); error != 0) {
    discard();
    errno = error;
    fail_on_system(path, "taking " + std::to_string(mapping_bytes_) + " bytes of disk");
  }
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
  if (mapping == MAP_FAILED) {
    const int error = errno;
    discard();
    errno = error;
    fail_on_system(path, "mapping it for writing");
  }
  mapping_ = mapping;
  std::memcpy(mapping_, header.data(), header.size());
  data_ = static_cast<char*>(mapping_) + header.size();
}

NpyWriter::~NpyWriter() { discard(); }

void NpyWriter::discard() noexcept {
  if (mapping_) ::munmap(std::exchange(mapping_, nullptr), mapping_bytes_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void NpyWriter::require(ElementType type) const {
  if (type != type_) throw Error(path_ + " is being written with elements " + descr(type_) + ", not " + descr(type));
}

void NpyWriter::commit() {
  ::munmap(std::exchange(mapping_, nullptr), mapping_bytes_);
  data_ = nullptr;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    discard();
    errno = error;
    fail_on_system(path_, "giving the written file its name");
  }
  temporary_.clear();
}

template <class T>
void write_npy(const std::string& path, const T* data, const std::vector<size_t>& shape) {
  NpyWriter writer(path, element_type<T>, shape);
  size_t count = 1;
  for (const size_t extent : shape) count *= extent;
  if (count) std::memcpy(writer.data<T>(), data, count * sizeof(T));
  writer.commit();
}
template void write_npy(const std::string&, const float*, const std::vector<size_t>&);
template void write_npy(const std::string&, const double*, const std::vector<size_t>&);
template void write_npy(const std::string&, const int32_t*, const std::vector<size_t>&);
template void write_npy(const std::string&, const int64_t*, const std::vector<size_t>&);

namespace {

template <class T>
void transpose(const NpyFile& matrix, NpyWriter& writer) {
  const T* from = matrix.data<T>();
  T* to = writer.data<T>();
  const size_t n = matrix.rows(), d = matrix.columns();
  // A block of rows at a time: reads run along the columns, writes stay within the block.
  parallel_pieces(n, 1024, [&](size_t, size_t begin, size_t end) {
    for (size_t f = 0; f < d; ++f)
      for (size_t i = begin; i < end; ++i) to[i * d + f] = from[f * n + i];
  });
}

}  // namespace

void write_in_c_order(const NpyFile& matrix, const std::string& path) {
  NpyWriter writer(path, matrix.type(), {matrix.rows(), matrix.columns()});
  switch (matrix.type()) {
    case ElementType::f32:
      transpose<float>(matrix, writer);
      break;
    case ElementType::f64:
      transpose<double>(matrix, writer);
      break;
    case ElementType::i32:
      transpose<int32_t>(matrix, writer);
      break;
    case ElementType::i64:
      transpose<int64_t>(matrix, writer);
      break;
  }
  writer.commit();
}

// ------------------------------------------------------------------------------------------------ looking at the data

template <class T>
std::optional<Nonfinite> find_nonfinite(const T* points, size_t n, size_t d) {
  // x - x is 0 for a finite x and NaN otherwise, and NaN survives a sum: one vector add per value, no branch.
  constexpr size_t lanes = 16;
  const size_t count = n * d;
  std::atomic<size_t> first = count;
  parallel_pieces(count, size_t(1) << 18, [&](size_t, size_t begin, size_t end) {
    if (begin >= first) return;
    T sums[lanes] = {};
    size_t i = begin;
    for (; i + lanes <= end; i += lanes)
      for (size_t l = 0; l < lanes; ++l) sums[l] += points[i + l] - points[i + l];
    for (; i < end; ++i) sums[0] += points[i] - points[i];
    bool clean = true;
    for (const T sum : sums) clean = clean && sum == 0;
    if (clean) return;
    for (i = begin; std::isfinite(points[i]);) ++i;
    size_t best = first;
    while (i < best && !first.compare_exchange_weak(best, i)) {
    }
  });
  if (first == count) return std::nullopt;
  return Nonfinite{first / d, first % d, double(points[first])};
}
template std::optional<Nonfinite> find_nonfinite(const float*, size_t, size_t);
template std::optional<Nonfinite> find_nonfinite(const double*, size_t, size_t);

template <class T>
int64_t find_zero_row(const T* points, int64_t n, int d) {
  constexpr size_t grain = 4096;
  std::vector<int64_t> first(pieces(size_t(n), grain), -1);
  parallel_pieces(size_t(n), grain, [&](size_t piece, size_t begin, size_t end) {
    for (size_t i = begin; i < end && first[piece] < 0; ++i) {
      const T* row = points + i * d;
      if (std::all_of(row, row + d, [](T x) { return x == 0; })) first[piece] = int64_t(i);
    }
  });
  const auto found = std::find_if(first.begin(), first.end(), [](int64_t row) { return row >= 0; });
  return found == first.end() ? -1 : *found;
}
template int64_t find_zero_row(const float*, int64_t, int);
template int64_t find_zero_row(const double*, int64_t, int);

template <class T>
size_t count_nonzero(const T* values, size_t count) {
  return count_where(count, [&](size_t i) { return values[i] != 0; });
}
template size_t count_nonzero(const float*, size_t);
template size_t count_nonzero(const double*, size_t);

namespace {

constexpr uint64_t prime[5] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                               0x27D4EB2F165667C5};

uint64_t mix(uint64_t lane, uint64_t input) { return std::rotl(lane + input * prime[1], 31) * prime[0]; }

template <class Word>
Word load(const unsigned char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

uint64_t xxh64(const void* data, size_t bytes, uint64_t seed) {
  const auto* at = static_cast<const unsigned char*>(data);
  const unsigned char* const end = at + bytes;
  uint64_t hash = seed + prime[4];
  if (bytes >= 32) {
    uint64_t lane[4] = {seed + prime[0] + prime[1], seed + prime[1], seed, seed - prime[0]};
    for (; end - at >= 32; at += 32)
      for (int l = 0; l < 4; ++l) lane[l] = mix(lane[l], load<uint64_t>(at + 8 * l));
    hash = std::rotl(lane[0], 1) + std::rotl(lane[1], 7) + std::rotl(lane[2], 12) + std::rotl(lane[3], 18);
    for (const uint64_t l : lane) hash = (hash ^ mix(0, l)) * prime[0] + prime[3];
  }
  hash += bytes;
  for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ mix(0, load<uint64_t>(at)), 27) * prime[0] + prime[3];
  for (; end - at >= 4; at += 4) hash = std::rotl(hash ^ load<uint32_t>(at) * prime[0], 23) * prime[1] + prime[2];
  for (; at < end; ++at) hash = std::rotl(hash ^ *at * prime[4], 11) * prime[0];
  hash = (hash ^ hash >> 33) * prime[1];
  hash = (hash ^ hash >> 29) * prime[2];
  return hash ^ hash >> 32;
}

std::string hash_file(const std::filesystem::path& file) {
  const std::string bytes = read_whole(file);
  return hash64(bytes.data(), bytes.size());
}

std::string hash64(const void* data, size_t bytes) {
  constexpr size_t piece_bytes = size_t(1) << 20;
  std::vector<uint64_t> hashes(pieces(bytes, piece_bytes));
  parallel_pieces(bytes, piece_bytes, [&](size_t piece, size_t begin, size_t end) {
    hashes[piece] = xxh64(static_cast<const char*>(data) + begin, end - begin);
  });
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(xxh64(hashes.data(), hashes.size() * sizeof(uint64_t))));
  return text;
}

}  // namespace ladder
