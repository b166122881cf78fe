// The hash of a rung's text: what changes it, and what does not.
#include "base/source_text.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace ladder {
namespace fs = std::filesystem;

namespace {

/// A checkout with one rung, v.cu, that includes a.cuh (implemented by a.cu), which includes b.cuh.
class SourceHash : public testing::Test {
 protected:
  void SetUp() override {
    write("variants/1/v.cu", "// link: cublas\n#include \"../common/x/a.cuh\"\nint v;\n");
    write("variants/common/x/a.cuh",
          "#pragma once\n#include \"b.cuh\"\n#include \"../../../harness/h.hpp\"\nint a();\n");
    write("variants/common/x/a.cu", "#include \"a.cuh\"\nint a() { return 1; }\n");
    write("variants/common/x/b.cuh", "#pragma once\nconstexpr int b = 2;\n");
    write("harness/h.hpp", "int h;\n");
    before_ = hash();
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::string hash(const std::string& file = "variants/1/v.cu") const { return source_hash(root_ / file, root_); }

  const fs::path root_ =
      fs::path(testing::TempDir()) / "source_hash" / testing::UnitTest::GetInstance()->current_test_info()->name();
  std::string before_;
};

TEST_F(SourceHash, IsNotOfCommentsBlankLinesAndTheHarness) {
  EXPECT_EQ(before_.size(), 16u);
  write("variants/1/v.cu",
        "// link: cublas\n\n#include \"../common/x/a.cuh\"  // the part\n/* an\n integer */int v;  // v\n");
  write("variants/common/x/b.cuh", "// Two.\n#pragma once\n\nconstexpr int b = 2;  // two\n");
  write("harness/h.hpp", "long h;\n");
  EXPECT_EQ(hash(), before_);
}

TEST_F(SourceHash, IsNotOfTheLesson) {
  const std::string code = "// link: cublas\n#include \"../common/x/a.cuh\"\nint v;\n";
  write("variants/1/v.cu",
        "#include \"../../harness/h.hpp\"\n" + code +
            "\nLADDER_LESSON(.predict = {{\"loads\", \"2 * (N + 1)\"}},\n              .ask = \"Why ')'?\")\n");
  EXPECT_EQ(hash(), before_);
  write("variants/1/v.cu", code + "LADDER_VARIANT(.id = \"v\")\n");
  EXPECT_NE(hash(), before_) << "the card counts";
}

TEST(Closing, IsOfTheSameDepthAndNotInQuotes) {
  const std::string code = R"(f({1, "}) \" ]", g[2]}); rest())";
  EXPECT_EQ(closing(code, 1), code.find(';') - 1);
  EXPECT_EQ(closing(code, 2), code.find(';') - 2);
  EXPECT_EQ(closing("f(1, (2)", 1), std::string::npos);
  std::string text = "LADDER_LESSON(.ask = \"never closed)\n";
  EXPECT_EQ(take_statement(text, "LADDER_LESSON("), "LADDER_LESSON(.ask = \"never closed)\n");
  EXPECT_EQ(text, "");
}

TEST_F(SourceHash, IsNotOfPlaces) {
  fs::rename(root_ / "variants/1", root_ / "variants/2");
  fs::rename(root_ / "variants/common/x", root_ / "variants/common/y");
  write("variants/2/v.cu", "// link: cublas\n#include \"../common/y/a.cuh\"\nint v;\n");
  EXPECT_EQ(hash("variants/2/v.cu"), before_);
}

TEST_F(SourceHash, IsOfTheFileAndOfAllPartsAndWhatImplementsThem) {
  const std::pair<const char*, const char*> changes[] = {
      {"variants/1/v.cu", "// link: cublas\n#include \"../common/x/a.cuh\"\nlong v;\n"},
      {"variants/1/v.cu", "// link: cusparse\n#include \"../common/x/a.cuh\"\nint v;\n"},
      {"variants/1/v.cu", "// for cuda: 90a\n// link: cublas\n#include \"../common/x/a.cuh\"\nint v;\n"},
      {"variants/common/x/a.cu", "#include \"a.cuh\"\nint a() { return 2; }\n"},
      {"variants/common/x/b.cuh", "#pragma once\nconstexpr int b = 3;\n"}};
  for (const auto& [file, text] : changes) {
    SetUp();
    write(file, text);
    EXPECT_NE(hash(), before_) << file << ": " << text;
  }
}

TEST_F(SourceHash, QuotedTextIsNoComment) {
  write("variants/1/v.cu", "auto v = \"// one\";\n");
  const std::string one = hash();
  write("variants/1/v.cu", "auto v = \"// two\";\n");
  EXPECT_NE(hash(), one);
}

TEST_F(SourceHash, OfPythonIsOfItsCode) {
  write("variants/p.py", "\"\"\"A peer.\"\"\"\n\n# Why.\nk = 3\n");
  const std::string was = hash("variants/p.py");
  write("variants/p.py", "\"\"\"A library.\"\"\"\nk = 3\n");
  EXPECT_EQ(hash("variants/p.py"), was);
  write("variants/p.py", "k = 4\n");
  EXPECT_NE(hash("variants/p.py"), was);
}

TEST(Kernels, AreFoundWithTheirParametersAndBodies) {
  const std::string text =
      "// __global__ void none(int a) { }\n"
      "__global__ void declared(int a);\n"
      "template <class T, int n = (1 > 0 ? 2 : 3)>\n"
      "__global__ void __launch_bounds__(256, blocks<T>(1))\n"
      "    first(const T* __restrict__ x, Pair<int, T> pair, T (&row)[4], int k) {\n"
      "  if (k) { text = \"}\"; }  // }\n"
      "}\n"
      "__device__ int helper(int a) { return a; }\n"
      "__global__ void second() {}\n";
  const std::vector<KernelText> found = kernels_of(text);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].name, "first");
  EXPECT_EQ(found[0].parameters.size(), 4);
  EXPECT_EQ(found[0].parameters[0], "x");
  EXPECT_EQ(found[0].parameters[1], "pair");
  EXPECT_EQ(found[0].parameters[3], "k");
  EXPECT_EQ(text.substr(found[0].begin, found[0].end - found[0].begin), "\n  if (k) { text = \"}\"; }  // }\n");
  EXPECT_EQ(found[1].name, "second");
  EXPECT_EQ(found[1].begin, found[1].end);
}

}  // namespace
}  // namespace ladder
