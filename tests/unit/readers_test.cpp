// Malformed files: thousands of mutations of small sound ones. Whatever is in a file, its reader throws the project's
// own Error, which names the file, or reads it; and nothing that is done with what it read throws anything else.
#include "tests/fuzz/readers.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "base/folders.hpp"
#include "formats/schema.hpp"
#include "records/record.hpp"

namespace ladder::fuzz {

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

namespace {

/// The same numbers on every machine.
class Chance {
 public:
  explicit Chance(uint64_t seed) : bits_(seed) {}
  size_t below(size_t count) { return size_t(bits_() % count); }

 private:
  std::mt19937_64 bits_;
};

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

/// Every place in a document.
void places(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& all) {
  all.push_back(at);
  if (value.is_object())
    for (const auto& [name, item] : value.items()) places(item, at / name, all);
  else if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) places(value[i], at / i, all);
}

/// What may stand where something else is expected, as text: some of it is no JSON.
const std::vector<std::string>& odd_values() {
  static const std::vector<std::string> all = {"null",
                                               "true",
                                               "0",
                                               "-1",
                                               "0.5",
                                               "1e308",
                                               "-1e308",
                                               "1e999",
                                               "9223372036854775808",
                                               "-9223372036854775808",
                                               "18446744073709551616",
                                               "2147483648",
                                               "\"\"",
                                               "\"x\"",
                                               "\"../x\"",
                                               "\"\\u0000\\u001b[2J\"",
                                               "\"\xff\xfe\"",
                                               "[]",
                                               "{}",
                                               "[null]",
                                               "{\"\":null}",
                                               "[[[]]]",
                                               nested(12),
                                               nested(40),
                                               nested(100000),
                                               '"' + std::string(5000, 'a') + '"',
                                               "NaN",
                                               "1.0",
                                               "4294967296.0"};
  return all;
}

/// One field is deleted, doubled, or holds something odd.
std::string with_odd_field(const std::string& sound, Chance& chance) {
  json document = json::parse(sound);
  std::vector<json::json_pointer> all;
  places(document, json::json_pointer(), all);
  const json::json_pointer at = all[1 + chance.below(all.size() - 1)];
  json& holder = document[at.parent_pointer()];
  const size_t what = chance.below(8);
  if (what == 0) {
    holder.is_array() ? holder.erase(size_t(std::stoul(at.back()))) : void(holder.erase(at.back()));
  } else if (what == 1 && holder.is_array()) {
    holder.push_back(document[at]);
  } else {
    const std::string mark = "the odd value";
    document[at] = mark;
    std::string text = document.dump();
    const size_t place = text.find('"' + mark + '"');
    return text.replace(place, mark.size() + 2, odd_values()[chance.below(odd_values().size())]);
  }
  return document.dump();
}

std::string with_odd_bytes(std::string text, Chance& chance) {
  const size_t at = chance.below(text.size());
  switch (chance.below(6)) {
    case 0:
      return text.substr(0, at);
    case 1:
      text[at] = char(text[at] ^ (1 << chance.below(8)));
      return text;
    case 2:
      text[at] = char(chance.below(256));
      return text;
    case 3:
      return text.erase(at, 1 + chance.below(20));
    case 4:
      return text.insert(at, text.substr(chance.below(text.size()), chance.below(60)));
    default:
      return text.insert(at, odd_values()[chance.below(odd_values().size())]);
  }
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "readers-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::vector<fs::path> examples(const Reader& reader) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(source_folder() / "tests" / "fuzz" / "corpus" / reader.name))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Why a reader is not safe from this file; empty where it is. `taken`: whether it read it.
std::string fault(const Reader& reader, const fs::path& file, bool& taken) {
  taken = false;
  try {
    reader.read(file);
    taken = true;
  } catch (const Error& error) {
    const std::string words = error.what();
    if (words.find(file.string()) == std::string::npos) return "names no file: " + words;
    if (words.find("json.exception") != std::string::npos) return "raw: " + words;
    if (words.size() > 2000) return "long: " + words.substr(0, 200);
    if (words.find('\x1b') != std::string::npos) return "moves the cursor: " + words;
    return "";
  } catch (const std::exception& error) {
    return std::string("read: ") + error.what();
  }
  try {
    reader.use(file);
  } catch (const Error&) {
  } catch (const std::exception& error) {
    return std::string("use: ") + error.what();
  }
  return "";
}

struct Readers : testing::TestWithParam<Reader> {};

TEST_P(Readers, ReadTheirExamples) {
  const Folder folder;
  for (const fs::path& example : examples(GetParam())) {
    const fs::path file = folder.path / ("sound" + example.extension().string());
    write(file, text_of(example));
    bool taken = false;
    EXPECT_EQ(fault(GetParam(), file, taken), "") << example;
    EXPECT_TRUE(taken) << example;
    EXPECT_NO_THROW(GetParam().use(file)) << example;
  }
}

TEST_P(Readers, SayWhatIsWrongWithMutatedFiles) {
  const Folder folder;
  const fs::path file = folder.path / "mutated";
  const bool is_json = GetParam().name != "npy";
  const std::vector<fs::path> files = examples(GetParam());
  const size_t inputs = (GetParam().name == "record" ? 2400 : 400) / files.size();
  Chance chance(7);
  size_t wrong = 0, refused = 0;
  for (const fs::path& example : files) {
    const std::string sound = text_of(example);
    for (size_t i = 0; i < inputs; ++i) {
      const bool of_bytes = !is_json || i % 3 == 0;
      const std::string text = of_bytes ? with_odd_bytes(sound, chance) : with_odd_field(sound, chance);
      write(file, text);
      bool taken = false;
      const std::string why = fault(GetParam(), file, taken);
      refused += !taken;
      if (why.empty() || ++wrong > 10) continue;
      ADD_FAILURE() << example.filename() << ", mutation " << i << ": " << why << "\n" << text.substr(0, 300);
    }
  }
  EXPECT_EQ(wrong, 0u);
  // A card with a fault is a variant that cannot be used.
  if (GetParam().name != "card") {
    EXPECT_GT(refused, inputs / 10);
  }
}

TEST_P(Readers, RefuseWhatIsNoFileAtOnce) {
  const Folder folder;
  const fs::path pipe = folder.path / "pipe", loop = folder.path / "loop";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(loop, loop);
  if (GetParam().name == "card") return;  // its folder is the build's
  for (const fs::path& file : {pipe, folder.path, fs::path("/dev/zero")}) {
    bool taken = true;
    EXPECT_EQ(fault(GetParam(), file, taken), "") << file;
    EXPECT_FALSE(taken) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Readers, testing::ValuesIn(readers()), [](const auto& info) { return info.param.name; });

std::string words_for(const fs::path& file) {
  try {
    read_record(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReadRecord, NamesFileFieldAndRemedy) {
  const Folder folder;
  const fs::path file = folder.path / "r.json";
  const json sound = json::parse(text_of(source_folder() / "tests/fuzz/corpus/record/version2.json"));
  const auto words = [&](auto change) {
    json broken = sound;
    change(broken);
    write(file, broken.dump());
    return words_for(file).substr(file.string().size());
  };
  const std::string remedy = ": mend the file, or take one that the ladder wrote";
  EXPECT_EQ(words([](json& r) { r["rows"][2].erase("status"); }), ": field rows[2].status: it is missing" + remedy);
  EXPECT_EQ(words([](json& r) { r["workloads"][0]["n"] = 0; }),
            ": field workloads[0].n: 0, where at least 1 is needed" + remedy);
  EXPECT_EQ(words([](json& r) { r["context"]["host"]["cores"] = "many"; }),
            ": field context.host.cores: 'many', where a whole number is needed" + remedy);
  EXPECT_EQ(words([](json& r) { r["rows"][0]["workload"] = "elsewhere"; }),
            ": field rows[0].workload: 'elsewhere', which is not among the workloads" + remedy);
  EXPECT_EQ(words([](json& r) { r["schema_version"] = 3; }), " is not a record of schema version 1 or 2" + remedy);
}

TEST(Schema, EveryKeywordOfEverySchemaIsKnown) {
  for (const char* name :
       {"record", "record_v1", "tuned", "choice", "profile", "timeline", "workloads", "card", "renamed"})
    EXPECT_NO_THROW(schema_named(name)) << name;
  EXPECT_THROW(Schema(R"({"type": "object", "dependentRequired": {}})"), Error);
}

TEST(Schema, EachKeywordRefuses) {
  const auto why = [](const char* schema, const char* document) {
    return Schema(schema).violation(json::parse(document)).value_or("");
  };
  EXPECT_EQ(why(R"({"type": ["number", "null"]})", "\"x\""), "the whole: 'x', where a number or null is needed");
  EXPECT_EQ(why(R"({"type": "integer"})", "2.0"), "");
  EXPECT_NE(why(R"({"type": "integer"})", "2.5"), "");
  EXPECT_NE(why(R"({"type": "integer"})", "1e300"), "");
  EXPECT_NE(why(R"({"enum": ["a", null]})", "\"b\""), "");
  EXPECT_NE(why(R"({"const": 1})", "2"), "");
  EXPECT_NE(why(R"({"minimum": 0})", "-1"), "");
  EXPECT_NE(why(R"({"exclusiveMinimum": 0})", "0"), "");
  EXPECT_NE(why(R"({"maximum": 3})", "4"), "");
  EXPECT_NE(why(R"({"minItems": 1})", "[]"), "");
  EXPECT_NE(why(R"({"maxItems": 0})", "[1]"), "");
  EXPECT_NE(why(R"({"uniqueItems": true})", "[1, 1]"), "");
  EXPECT_NE(why(R"({"minLength": 1})", "\"\""), "");
  EXPECT_NE(why(R"({"minProperties": 1})", "{}"), "");
  EXPECT_NE(why(R"({"pattern": "^a+$"})", "\"b\""), "");
  EXPECT_EQ(why(R"({"items": {"type": "null"}})", "[null, 1]"), "field [1]: 1, where null is needed");
  EXPECT_EQ(why(R"({"required": ["a"]})", "{}"), "field a: it is missing");
  EXPECT_EQ(why(R"({"properties": {"a": {"required": ["b"]}}})", R"({"a": {}, "c": 1})"), "field a.b: it is missing");
  EXPECT_NE(why(R"({"additionalProperties": {"type": "null"}})", R"({"a": 1})"), "");
  EXPECT_NE(why(R"({"oneOf": [{"type": "null"}, {"type": "string"}]})", "1"), "");
  EXPECT_NE(why(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})", "1"), "");
  EXPECT_NE(why(R"({"allOf": [{"minimum": 2}]})", "1"), "");
  EXPECT_NE(why(R"({"if": {"minimum": 2}, "then": {"maximum": 3}, "else": {"maximum": 0}})", "4"), "");
  EXPECT_NE(why(R"({"if": {"minimum": 2}, "then": {"maximum": 3}, "else": {"maximum": 0}})", "1"), "");
  EXPECT_NE(why(R"({"items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "null"}}})", "[1]"), "");
}

}  // namespace
}  // namespace ladder::fuzz
