#include "debug/dump/safetensors.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace lanescope {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace std::string_view_literals;
using testing::read_bytes;
using testing::safetensors_bytes;
using testing::TemporaryFolder;
using testing::usage_error;
using testing::write_bytes;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Touches every byte, so that one outside the mapping would crash the test.
void read_all(const SafetensorsEntry& entry) {
  const std::vector<std::byte> copy(entry.bytes.begin(), entry.bytes.end());
  CHECK(copy.size() == entry.bytes.size());
}

std::string error_of(std::string_view bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.safetensors", bytes);
  return usage_error([&] { SafetensorsFile(folder / "x.safetensors"); });
}

/// One F16 tensor `a` of two elements with the given shape and offsets, and 4 bytes of data.
std::string one_tensor(const std::string& shape, const std::string& offsets,
                       const std::string& data = "wxyz") {
  return safetensors_bytes(
      R"({"a":{"dtype":"F16","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
}

std::string two_tensors(const std::string& first, const std::string& second) {
  return safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                               R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                           "wxyz");
}

TEST_CASE("safetensors: what is written is read again, in order and aligned", "[quick]") {
  const TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  const std::vector<SafetensorsEntry> entries = {
      {"zebra", "F32", {2, 1}, bytes_of("12345678")},
      {"empty", "F16", {3, 0}, {}},
      {"a \"quoted\" naïve name", "BF16", {}, bytes_of("ab")},
      {"ape", "I64", {1}, bytes_of("abcdefgh")},
  };
  const SafetensorsMetadata metadata = {{"z", "1"}, {"a", "two\nlines, ünicode"}, {"", ""}};
  write_safetensors(path, entries, metadata);

  const SafetensorsFile file(path);
  CHECK(file.metadata() == metadata);
  REQUIRE(file.entries().size() == entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsEntry& read = file.entries()[i];
    CHECK(read.name == entries[i].name);
    CHECK(read.dtype == entries[i].dtype);
    CHECK(read.dims == entries[i].dims);
    CHECK(std::ranges::equal(read.bytes, entries[i].bytes));
    CHECK(file.find(read.name) == &read);
  }
  CHECK(file.find("none") == nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(file.entries()[0].bytes.data()) % 64 == 0);

  write_safetensors(folder / "again", entries, metadata);
  CHECK(read_bytes(folder / "again") == read_bytes(path));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("safetensors: a tensor has the values of an entry, of the known types only") {
  const TemporaryFolder folder;
  write_safetensors(folder / "x",
                    std::vector<SafetensorsEntry>{{"h", "F16", {2}, bytes_of("\x00\x3c\x00\xc0"sv)},
                                                  {"i", "I32", {1}, bytes_of("1234")},
                                                  {"f4", "F4", {2}, bytes_of("x")}},
                    {});
  const SafetensorsFile file(folder / "x");
  const Tensor half = file.tensor(*file.find("h"));
  CHECK(half.at(0) == 1.0);
  CHECK(half.at(1) == -2.0);
  CHECK_THAT(usage_error([&] { file.tensor(*file.find("i")); }),
             ContainsSubstring("tensor 'i' has dtype I32, where F32, F16, BF16 or F8_E4M3"));
  CHECK(file.find("f4")->bytes.size() == 1);
}

TEST_CASE("safetensors: a file outlives the handle that opened it") {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", std::vector<SafetensorsEntry>{{"a", "U8", {4}, bytes_of("wxyz")}},
                    {});
  const SafetensorsFile copy = [&] { return SafetensorsFile(SafetensorsFile(folder / "x")); }();
  std::filesystem::remove(folder / "x");
  CHECK(std::memcmp(copy.entries()[0].bytes.data(), "wxyz", 4) == 0);
}

TEST_CASE("safetensors: a tensor shares the mapping until it is written to") {
  const TemporaryFolder folder;
  write_safetensors(
      folder / "x",
      std::vector<SafetensorsEntry>{{"h", "F16", {2}, bytes_of("\x00\x3c\x00\xc0"sv)}}, {});
  Tensor tensor, copy;
  {
    const SafetensorsFile file(folder / "x");
    tensor = file.tensor(*file.find("h"));
    CHECK(std::as_const(tensor).bytes.data() == file.find("h")->bytes.data());
  }
  copy = tensor;
  CHECK(std::as_const(copy).bytes.data() == std::as_const(tensor).bytes.data());
  copy.set(0, 7.0);
  CHECK(copy.at(0) == 7.0);
  CHECK(copy.at(1) == -2.0);
  CHECK(tensor.at(0) == 1.0);
  CHECK_FALSE(copy.bytes == tensor.bytes);
  copy.set(0, 1.0);
  CHECK(copy.bytes == tensor.bytes);
}

TEST_CASE("safetensors: what breaks the format is refused with the reason") {
  struct Case {
    std::string bytes, reason;
  };
  const std::string good = one_tensor("[2]", "[0,4]");
  REQUIRE(error_of(good) == "");
  const std::string deep(1 << 20, '[');
  const std::vector<Case> cases = {
      {"", "has only 0 bytes"},
      {"1234567", "has only 7 bytes"},
      {std::string(8, '\0'), "does not begin with '{'"},
      {std::string(8, '\xff'), "more than the file"},

      {safetensors_bytes(" {}", ""), "does not begin with '{'"},
      {safetensors_bytes("{", ""), "no valid JSON at its byte 2"},
      {safetensors_bytes("{} x", ""), "no valid JSON"},
      {safetensors_bytes("{}{}", ""), "no valid JSON"},
      {safetensors_bytes("{}\0 "sv, ""), "no valid JSON at its byte 3"},
      {safetensors_bytes("{\"\xff\":{}}", ""), "no valid JSON"},
      {safetensors_bytes("{\"a\":" + deep, ""), "an array where none belongs"},
      {one_tensor(deep, "[0,4]"), "an array where none belongs in tensor 'a'"},
      {safetensors_bytes(R"({"a":{"b":{}}})", ""), "the unknown field 'b' in tensor 'a'"},
      {safetensors_bytes(R"({"a":{"dtype":{}}})", ""), "an object where none belongs"},
      {safetensors_bytes(R"({"a":1})", ""), "a number where none belongs"},
      {safetensors_bytes(R"({"a":null})", ""), "a null where none belongs"},
      {safetensors_bytes(R"({"a":"b"})", ""), "a string where none belongs"},
      {safetensors_bytes(R"({"a":{"dtype":"U8"}})", ""), "not all of dtype, shape and data_off"},
      {safetensors_bytes(R"({"a":{"dtype":"U8","dtype":"U8"}})", ""), "the field 'dtype' twice"},
      {safetensors_bytes(R"({"a":{"shape":"x"}})", ""), "a string where none belongs"},
      {safetensors_bytes(R"({"a":{"shape":true}})", ""), "a boolean where none belongs"},
      {safetensors_bytes(R"({"__metadata__":{"a":1}})", ""), "a number where none belongs"},
      {safetensors_bytes(R"({"__metadata__":{"a":{}}})", ""), "an object where none belongs"},
      {safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", ""), "__metadata__ twice"},
      {safetensors_bytes(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "'a' twice"},
      {one_tensor("[-2]", "[0,4]"), "the negative number -2"},
      {one_tensor("[2.0]", "[0,4]"), "the number 2.0, which is no whole number"},
      {one_tensor("[18446744073709551616]", "[0,4]"), "no whole number that fits 64 bits"},
      {one_tensor("[9223372036854775808]", "[0,4]"), "which is too large"},
      {one_tensor("[4294967296,4294967296]", "[0,4]"), "size overflows 64 bits"},
      {one_tensor("[4611686018427387904]", "[0,4]"), "size overflows 64 bits"},
      {one_tensor("[3]", "[0,4]"), "has 4 bytes where its shape and dtype F16 need 6"},
      {one_tensor("[2]", "[0,6]"), "ends at byte 6 of the data, but the file has only 4"},
      {one_tensor("[2]", "[4,0]"), "ends before it begins"},
      {one_tensor("[2]", "[0]"), "fewer than two data_offsets"},
      {one_tensor("[2]", "[0,2,4]"), "more than two data_offsets"},
      {one_tensor("[2]", "[0,4]", "wxyz!"), "the last 1 bytes belong to no tensor"},
      {one_tensor("[1]", "[2,4]"), "a hole of 2 bytes lies before tensor 'a'"},
      {two_tensors("[0,2]", "[1,3]"), "tensor 'b' overlaps another one"},
      {two_tensors("[0,2]", "[0,2]"), "overlaps another one"},
      {safetensors_bytes(R"({"a\u001b[2J":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}})", "xy"),
       "tensor 'a?[2J' has 2 bytes"},
  };
  for (const Case& item : cases) CHECK_THAT(error_of(item.bytes), ContainsSubstring(item.reason));

  std::string many = "[1";
  for (int i = 0; i < 40; ++i) many += ",1";
  CHECK_THAT(error_of(one_tensor(many + "]", "[0,2]", "xy")),
             ContainsSubstring("more than 32 dimensions"));
  const std::string twin = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK_THAT(error_of(safetensors_bytes("{" + twin + "," + twin + "}", "")),
             ContainsSubstring("'a' twice"));
}

TEST_CASE("safetensors: a header longer than the format allows is refused, unread") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8));
  std::filesystem::resize_file(folder / "x", 200'000'000);  // a hole: takes no space
  CHECK_THAT(usage_error([&] { SafetensorsFile(folder / "x"); }),
             ContainsSubstring("100000001 bytes, more than the format allows"));
}

TEST_CASE("safetensors: what is no file is refused") {
  const TemporaryFolder folder;
  CHECK_THAT(usage_error([&] { SafetensorsFile(folder / "none"); }),
             ContainsSubstring("cannot be opened: No such file"));
  CHECK_THAT(usage_error([&] { SafetensorsFile(folder.path()); }),
             ContainsSubstring("is not a regular file"));
}

TEST_CASE("safetensors: a file cut anywhere, or with any byte changed, is read or refused") {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  write_safetensors(path,
                    std::vector<SafetensorsEntry>{{"a", "F16", {2, 2}, bytes_of("12345678")},
                                                  {"b", "I16", {1}, bytes_of("xy")}},
                    {{"key", "value"}});
  const std::string bytes = read_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK(error_of(std::string_view(bytes).substr(0, length)) != "");
  }
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string changed = bytes;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    write_bytes(path, changed);
    refused += usage_error([&] {
                 const SafetensorsFile file(path);
                 for (const SafetensorsEntry& entry : file.entries()) read_all(entry);
               }) != "";
  }
  CHECK(refused > 1000);
  CHECK(refused < 10000);
}

TEST_CASE("safetensors: entries that break the format are not written") {
  const TemporaryFolder folder;
  const auto error = [&](const std::vector<SafetensorsEntry>& entries,
                         const SafetensorsMetadata& metadata) {
    return usage_error([&] { write_safetensors(folder / "x", entries, metadata); });
  };
  const SafetensorsEntry a = {"a", "U8", {2}, bytes_of("ab")};
  CHECK_THAT(error({a, a}, {}), ContainsSubstring("'a' twice"));
  CHECK_THAT(error({a}, {{"k", "1"}, {"k", "2"}}), ContainsSubstring("'k' twice"));
  CHECK_THAT(error({{"a", "U8", {3}, bytes_of("ab")}}, {}), ContainsSubstring("has 2 bytes where"));
  CHECK_THAT(error({{"__metadata__", "U8", {0}, {}}}, {}), ContainsSubstring("__metadata__"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("safetensors: text that is no UTF-8 is replaced") {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", {}, {{"path", "a\xff"}});
  CHECK(SafetensorsFile(folder / "x").metadata()[0].second == "a\xef\xbf\xbd");
}

TEST_CASE("safetensors: only a regular file is written or replaced") {
  const TemporaryFolder folder;
  const auto error = [](const std::filesystem::path& path) {
    return usage_error([&] { write_safetensors(path, {}, {}); });
  };
  CHECK_THAT(error("/dev/null"), ContainsSubstring("/dev/null is not a regular file"));
  CHECK_THAT(error(folder.path()), ContainsSubstring("is not a regular file"));
  CHECK_THAT(error(folder / "none/x"), ContainsSubstring("cannot be created: No such file"));

  write_bytes(folder / "old", "old");
  std::filesystem::create_symlink(folder / "old", folder / "link");
  CHECK(error(folder / "link") == "");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK_NOTHROW(SafetensorsFile(folder / "old"));
}

TEST_CASE("safetensors: a write that fails leaves the old file and nothing else") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "old");
  const std::string large(1 << 20, 'x');
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small = {4096, limit.rlim_max};
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string error;
  try {
    write_safetensors(folder / "x",
                      std::vector<SafetensorsEntry>{{"a", "U8", {1 << 20}, bytes_of(large)}}, {});
  } catch (const EnvironmentError& failure) {
    error = failure.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old_handler);
  CHECK_THAT(error, ContainsSubstring("cannot be written: File too large"));
  CHECK(read_bytes(folder / "x") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

}  // namespace
}  // namespace lanescope
