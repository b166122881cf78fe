#include "base/npy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.hpp"

namespace ladder {
namespace {

/// A folder of its own for each test, gone with it.
class Npy : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ladder_npy_" + std::to_string(::getpid()) + "_" +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "x.npy") const { return (folder_ / name).string(); }

  /// A file of exactly these bytes.
  std::string file(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }
  /// A file with this header (padded to 64 bytes) and `data_bytes` of zeros.
  std::string array(const std::string& dictionary, size_t data_bytes, int version = 1) const {
    const size_t before = version == 1 ? 10 : 12;
    std::string header = dictionary;
    while ((before + header.size() + 1) % 64 != 0) header += ' ';
    return file(start(version, header.size() + 1) + header + '\n' + std::string(data_bytes, '\0'));
  }
  static std::string start(int version, size_t header_bytes) {
    std::string text = std::string("\x93NUMPY") + char(version) + '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += char(header_bytes >> 8 * i & 0xff);
    return text;
  }
  /// The error that opening `name` ends with; a test fails where there is none.
  static std::string error_of(const std::string& name) {
    try {
      const NpyFile file(name);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << name << " was read without an error";
    return "";
  }
  size_t files() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path folder_;
};

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not say '" << part << "'";
}

TEST_F(Npy, WritesWhatItReads) {
  const std::vector<float> values{1, -2.5f, 3, 4, 5, 1e-40f};
  write_npy(path(), values.data(), {3, 2});
  const NpyFile file(path());
  EXPECT_EQ(file.type(), ElementType::f32);
  EXPECT_EQ(file.shape(), (std::vector<size_t>{3, 2}));
  EXPECT_EQ(file.rows(), 3u);
  EXPECT_EQ(file.columns(), 2u);
  EXPECT_EQ(file.size(), 6u);
  EXPECT_EQ(std::memcmp(file.data<float>(), values.data(), 24), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.data<float>()) % 64, 0u);
  EXPECT_EQ(files(), 1u) << "the temporary file is gone";
}

TEST_F(Npy, AllTypesAndDimensions) {
  const double f64[] = {0.1};
  const int32_t i32[] = {-1, 2, 3};
  const int64_t i64[] = {int64_t(1) << 40, -5};
  write_npy(path("f64"), f64, {});
  write_npy(path("i32"), i32, {3});
  write_npy(path("i64"), i64, {1, 2, 1});
  EXPECT_EQ(NpyFile(path("f64")).data<double>()[0], 0.1);
  EXPECT_EQ(NpyFile(path("i32")).data<int32_t>()[2], 3);
  EXPECT_EQ(NpyFile(path("i64")).data<int64_t>()[1], -5);
  EXPECT_EQ(NpyFile(path("i64")).shape(), (std::vector<size_t>{1, 2, 1}));
  EXPECT_THROW(NpyFile(path("i32")).data<float>(), Error);
  EXPECT_THROW(NpyFile(path("i32")).rows(), Error);
}

TEST_F(Npy, TheHeaderIsNumpysByteForByte) {
  const float value[] = {0};
  write_npy(path(), value, {1});
  std::ifstream in(path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  ASSERT_EQ(bytes.size(), 132u);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, dictionary.size()), dictionary);
  EXPECT_EQ(bytes[127], '\n');
}

TEST_F(Npy, AnyOrderSpacingAndVersion) {
  const std::string spaced = "{ \"shape\" :( 2,3 ) ,\"fortran_order\":False,'descr':\t'<f8'}";
  for (const int version : {1, 2, 3}) {
    const NpyFile file(array(spaced, 48, version));
    EXPECT_EQ(file.type(), ElementType::f64);
    EXPECT_EQ(file.rows(), 2u);
    EXPECT_EQ(file.columns(), 3u);
  }
  EXPECT_EQ(NpyFile(array("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L,), }", 24)).size(), 6u);
  EXPECT_EQ(NpyFile(array("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", 0)).size(), 0u);
}

TEST_F(Npy, MovesItsMapping) {
  const int32_t values[] = {7};
  write_npy(path(), values, {1});
  NpyFile first(path());
  NpyFile second(std::move(first));
  write_npy(path("other"), values, {1});
  NpyFile third(path("other"));
  third = std::move(second);
  EXPECT_EQ(third.data<int32_t>()[0], 7);
  EXPECT_EQ(third.path(), path());
}

TEST_F(Npy, RefusesWhatIsNoFile) {
  EXPECT_TRUE(has(error_of(path("missing.npy")), "No such file"));
  EXPECT_TRUE(has(error_of(std::filesystem::path(path()).parent_path().string()), "not a regular file"));
  EXPECT_TRUE(has(error_of(file("")), "0 bytes"));
  EXPECT_TRUE(has(error_of(file("\x93NUMPY\x01")), "less than a .npy header"));
  EXPECT_TRUE(has(error_of(file("a,b,c\n1,2,3\n4,5,6\n")), "not a .npy file"));
}

TEST_F(Npy, RefusesBrokenHeaders) {
  EXPECT_TRUE(has(error_of(file(std::string("\x93NUMPY\x04\x00\x76\x00", 10) + std::string(200, ' '))), "version 4.0"));
  EXPECT_TRUE(has(error_of(file(std::string("\x93NUMPY\x01\x01\x76\x00", 10) + std::string(200, ' '))), "version 1.1"));
  EXPECT_TRUE(has(error_of(file(start(1, 500) + std::string(100, ' '))), "cut off"));
  EXPECT_TRUE(has(error_of(file(start(2, 0xfffffff0) + std::string(100, ' '))), "cut off"));
  EXPECT_TRUE(has(error_of(file(std::string("\x93NUMPY\x02\x00\x76\x00", 10))), "less than a .npy header"));
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "opening brace"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "its end"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "text after"},
      {"{'descr': '<f4', 'fortran_order': False, }", "no key 'shape'"},
      {"{'descr': '<f4', 'shape': (1,), }", "no key 'fortran_order'"},
      {"{'fortran_order': False, 'shape': (1,), }", "no key 'descr'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "unknown key 'more'"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", "neither True nor False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "no natural number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", "no tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", "no tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "beyond 64 bits"},
      {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,), }", "instead of"},
      {"{'descr' '<f4'}", "a colon"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured"},
  };
  for (const auto& [header, part] : cases) EXPECT_TRUE(has(error_of(array(header, 4)), part));
}

TEST_F(Npy, RefusesOtherLayoutsAndTypes) {
  EXPECT_TRUE(has(error_of(array("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16)),
                  "Fortran order: save it with numpy.ascontiguousarray"));
  EXPECT_TRUE(has(error_of(array("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", 16)), "big-endian"));
  EXPECT_TRUE(has(error_of(array("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2), }", 8)), "type '<f2'"));
  EXPECT_TRUE(has(error_of(array("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }", 4)), "astype('<f4')"));
}

TEST_F(Npy, RefusesWrongSizes) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  EXPECT_EQ(NpyFile(array(header, 16)).size(), 4u);
  EXPECT_TRUE(has(error_of(array(header, 15)), "cut off"));
  EXPECT_TRUE(has(error_of(array(header, 17)), "appended"));
  const std::string huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967297), }";
  EXPECT_TRUE(has(error_of(array(huge, 8)), "more than memory can address"));
  const std::string wraps = "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693953,), }";  // * 8 = 8
  EXPECT_TRUE(has(error_of(array(wraps, 8)), "more than memory can address"));
}

TEST_F(Npy, RefusesMisalignedData) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";  // 10 + 57 bytes
  EXPECT_TRUE(has(error_of(file(start(1, header.size()) + header + std::string(4, '\0'))), "not a multiple of 4"));
}

TEST_F(Npy, AWriterThatIsDroppedLeavesNothing) {
  {
    NpyWriter writer(path(), ElementType::f32, {1000, 10});
    writer.data<float>()[9999] = 1;
    EXPECT_EQ(files(), 1u);
    EXPECT_FALSE(std::filesystem::exists(path()));
    EXPECT_THROW(writer.data<double>(), Error);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(Npy, AWriterReplacesAnEarlierFileAtCommit) {
  const int32_t old[] = {1};
  write_npy(path(), old, {1});
  NpyWriter writer(path(), ElementType::i32, {2});
  writer.data<int32_t>()[1] = 9;
  EXPECT_EQ(NpyFile(path()).size(), 1u);
  writer.commit();
  const NpyFile file(path());
  ASSERT_EQ(file.size(), 2u);
  EXPECT_EQ(file.data<int32_t>()[0], 0);
  EXPECT_EQ(file.data<int32_t>()[1], 9);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Npy, WritersRefuseWhatCannotBe) {
  EXPECT_THROW(NpyWriter(path(), ElementType::f64, {size_t(1) << 40, size_t(1) << 40}), Error);
  EXPECT_THROW(NpyWriter(path() + "/no/such/folder/x.npy", ElementType::f64, {1}), Error);
  EXPECT_THROW(NpyWriter(path(), ElementType::f64, {size_t(1) << 55}), Error) << "no disk has that";
  EXPECT_EQ(files(), 0u);
}

TEST(Nonfinite, FindsTheFirstOfMany) {
  const size_t n = 300000, d = 3;
  std::vector<float> points(n * d, 1.0f);
  EXPECT_FALSE(find_nonfinite(points.data(), n, d));
  points[n * d - 1] = std::numeric_limits<float>::infinity();
  auto found = find_nonfinite(points.data(), n, d);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->row, n - 1);
  EXPECT_EQ(found->column, 2u);
  EXPECT_TRUE(std::isinf(found->value));
  points[200000 * d + 1] = -std::numeric_limits<float>::infinity();
  points[100000 * d + 2] = std::numeric_limits<float>::quiet_NaN();
  found = find_nonfinite(points.data(), n, d);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->row, 100000u);
  EXPECT_EQ(found->column, 2u);
  EXPECT_TRUE(std::isnan(found->value));
}

TEST(Nonfinite, LargestAndSmallestNumbersAreFinite) {
  const double values[] = {std::numeric_limits<double>::max(), -std::numeric_limits<double>::max(),
                           std::numeric_limits<double>::denorm_min(), -0.0};
  EXPECT_FALSE(find_nonfinite(values, 2, 2));
  EXPECT_FALSE(find_nonfinite(values, 0, 2));
}

TEST(Hash, XXH64KnownAnswers) {
  EXPECT_EQ(xxh64("", 0), 0xef46db3751d8e999u);
  EXPECT_EQ(xxh64("a", 1), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(xxh64("abc", 3), 0x44bc2cf5ad770999u);
  std::vector<unsigned char> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (unsigned char)(i * 7 + 3);
  EXPECT_EQ(xxh64(bytes.data(), 31), 0xa2aa5f33cc4a6119u);
  EXPECT_EQ(xxh64(bytes.data(), 32), 0x23c3c17ef790fd97u);
  EXPECT_EQ(xxh64(bytes.data(), 45), 0x86faee00897c4b41u);
  EXPECT_EQ(xxh64(bytes.data(), 100), 0xa61f8d4c170fe531u);
}

TEST(Hash, PiecesOfAMebibyte) {
  std::vector<unsigned char> bytes(3000001);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (unsigned char)(i * 2654435761u >> 7);
  const std::string hash = hash64(bytes.data(), bytes.size());
  EXPECT_EQ(hash, "b8e7e5cfd3138771");  // Python: xxh64 over the pieces' xxh64 values, little-endian
  bytes[1 << 20] ^= 1;
  EXPECT_NE(hash64(bytes.data(), bytes.size()), hash);
}

/// Sets LADDER_THREADS for the length of a scope.
struct Threads {
  explicit Threads(const char* count) { ::setenv("LADDER_THREADS", count, 1); }
  ~Threads() { ::unsetenv("LADDER_THREADS"); }
};

TEST(Parallel, CallsEachIndexOnce) {
  for (const char* threads : {"1", "2", "7"}) {
    const Threads set(threads);
    std::vector<int> calls(1000);
    parallel_for(0, calls.size(), [&](size_t i) { ++calls[i]; });
    EXPECT_EQ(calls, std::vector<int>(1000, 1));
  }
  parallel_for(5, 5, [](size_t) { FAIL() << "an empty range has no index"; });
}

TEST(Parallel, PiecesCoverTheWhole) {
  std::vector<int> calls(1001);
  parallel_pieces(calls.size(), 100, [&](size_t piece, size_t begin, size_t end) {
    EXPECT_EQ(begin, piece * 100);
    EXPECT_LE(end - begin, 100u);
    for (size_t i = begin; i < end; ++i) ++calls[i];
  });
  EXPECT_EQ(calls, std::vector<int>(1001, 1));
}

TEST(Parallel, HandsOnAnException) {
  EXPECT_THROW(parallel_for(0, 100,
                            [](size_t i) {
                              if (i == 42) throw Error("forty-two");
                            }),
               Error);
}

TEST(Parallel, RefusesAThreadCountThatIsNone) {
  for (const char* count : {"0", "-2", "many", "3x"}) {
    const Threads set(count);
    EXPECT_THROW(host_threads(), Error) << count;
  }
  const Threads set("3");
  EXPECT_EQ(host_threads(), 3);
}

}  // namespace
}  // namespace ladder
