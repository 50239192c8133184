#include "gates/build/ninja_record.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;
using testing::write_bytes;

/// A folder that the ninja at hand builds: module.so of a.cc, which includes a.h.
struct Built {
  Built() {
    write_bytes(folder / "a.h", "int f();\n");
    write_bytes(folder / "a.cc", "#include \"a.h\"\nint f() { return 1; }\n");
    write_bytes(folder / "build.ninja",
                "rule compile\n"
                "  command = c++ -nostdinc -MD -MF $out.d -c $in -o $out\n"
                "  depfile = $out.d\n"
                "  deps = gcc\n"
                "rule link\n"
                "  command = cp $in $out && chmod +x $out\n"
                "build module.so.p/a.o: compile a.cc\n"
                "build module.so: link module.so.p/a.o\n"
                "build module.so.other.p/a.o: compile a.cc\n");
    ninja();
  }
  void ninja() const {
    REQUIRE(std::system(("ninja -C " + folder.path().string() + " > /dev/null").c_str()) == 0);
  }
  void touch(const char* name) const {
    const auto made = fs::last_write_time(folder / "module.so");
    fs::last_write_time(folder / name, made + std::chrono::milliseconds(1));
  }
  bool is_newer() const { return is_newer_than_includes(folder.path(), "module.so"); }

  testing::TemporaryFolder folder;
};

TEST_CASE("ninja: what a module was compiled of") {
  const Built built;
  const std::string record = testing::read_bytes(built.folder / ".ninja_deps");
  CHECK(recorded_includes(record, "module.so") == std::vector<std::string>{"a.cc", "a.h"});
  CHECK(recorded_includes(record, "module").empty());
  CHECK(recorded_includes("", "module.so").empty());
  for (std::size_t size = 0; size < record.size(); ++size) {  // ninja writes the rest
    const auto included = recorded_includes(std::string_view(record).substr(0, size), "module.so");
    CHECK((included.empty() || included.size() == 2));
  }
  std::string other = record;
  ++other[12];
  CHECK(recorded_includes(other, "module.so").empty());  // of a version to come
}

TEST_CASE("ninja: a module is newer than what it was compiled of") {
  const Built built;
  CHECK(built.is_newer());
  for (const char* name : {"a.h", "a.cc"}) {
    built.touch(name);
    CHECK_FALSE(built.is_newer());
    built.ninja();
    CHECK(built.is_newer());
  }
  built.touch("build.ninja");
  CHECK_FALSE(built.is_newer());
  fs::last_write_time(built.folder / "build.ninja", fs::last_write_time(built.folder / "a.cc"));
  CHECK(built.is_newer());
  constexpr auto executable =
      fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  fs::permissions(built.folder / "module.so", executable, fs::perm_options::remove);
  CHECK_FALSE(built.is_newer());  // it is being written
  fs::permissions(built.folder / "module.so", executable, fs::perm_options::add);
  CHECK(built.is_newer());
  fs::remove(built.folder / "a.h");
  CHECK_FALSE(built.is_newer());
  CHECK_FALSE(is_newer_than_includes(built.folder.path(), "nothing.so"));
  write_bytes(built.folder / "plain.so", "of nothing that is recorded");
  fs::permissions(built.folder / "plain.so", executable, fs::perm_options::add);
  CHECK_FALSE(is_newer_than_includes(built.folder.path(), "plain.so"));
}

TEST_CASE("ninja: what a source includes no more is nothing to a module") {
  const Built built;
  write_bytes(built.folder / "a.cc", "int f() { return 1; }\n");
  built.touch("a.cc");
  built.ninja();
  CHECK(built.is_newer());
  built.touch("a.h");
  CHECK(built.is_newer());
}

}  // namespace
}  // namespace lanescope
