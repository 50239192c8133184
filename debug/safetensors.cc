#include "debug/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "debug/error.h"
#include "debug/safetensors_header.h"
#include "debug/text.h"

namespace lanescope {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

[[noreturn]] void fail(const fs::path& path, const std::string& what, int error) {
  throw UsageError(path.string() + ": " + what + ": " + std::generic_category().message(error));
}

/// Closes a file descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  /// Returns 0 or the error; some file systems report a full disk only here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

 private:
  int number_;
};

/// The bytes of a file and how many they are.
std::pair<std::shared_ptr<const std::byte>, std::uint64_t> map_file(const fs::path& path) {
  // Not blocking: opening a pipe would otherwise wait for someone to write to it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) fail(path, "cannot be opened", errno);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) throw UsageError(path.string() + " is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < 8) {
    throw UsageError(path.string() + " is no safetensors file: it has only " +
                     std::to_string(size) + " bytes; it may be truncated");
  }
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) fail(path, "cannot be mapped into memory", errno);
  const auto unmap = [size](const std::byte* bytes) {
    ::munmap(const_cast<std::byte*>(bytes), size);
  };
  return {{static_cast<const std::byte*>(address), unmap}, size};
}

/// A file under a name of its own next to its target, which it replaces when it is complete.
class NewFile {
 public:
  explicit NewFile(const fs::path& target) : target_(target), file_(create()) {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.number(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(target_, "cannot be written", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void complete() {
    if (const int error = file_.close()) fail(target_, "cannot be written", error);
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail(target_, "cannot be written", errno);
    name_.clear();
  }

 private:
  int create() {
    const std::string stem = target_.string() + ".part" + std::to_string(::getpid());
    for (int attempt = 0; attempt < 100; ++attempt) {
      name_ = stem + "." + std::to_string(attempt);
      const int file = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file >= 0) return file;
      if (errno != EEXIST) break;
    }
    const int error = errno;
    name_.clear();
    fail(target_, "cannot be created", error);
  }

  fs::path target_;
  std::string name_;
  Descriptor file_;
};

/// Where writing to `path` leads. Only a regular file may be replaced: never a device or a pipe.
fs::path target_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return path;
  if (!fs::is_regular_file(status)) {
    throw UsageError(path.string() + " is not a regular file; give the name of a file to write");
  }
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path) {
  std::uint64_t size = 0;
  std::tie(mapping_, size) = map_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, mapping_.get(), 8);
  if (length > size - 8 || length > max_header_bytes) {
    throw UsageError(path.string() + " is no safetensors file: its header would have " +
                     std::to_string(length) + " bytes, more than " +
                     (length > size - 8 ? "the file; it may be truncated" : "the format allows"));
  }
  const std::byte* data = mapping_.get() + 8 + length;
  const std::string_view json(reinterpret_cast<const char*>(mapping_.get()) + 8, length);
  SafetensorsHeader header = parse_header(json, size - 8 - length, path.string());
  metadata_ = std::move(header.metadata);
  entries_.reserve(header.entries.size());
  for (auto& entry : header.entries) {
    entries_.push_back({std::move(entry.name),
                        std::move(entry.dtype),
                        std::move(entry.dims),
                        {data + entry.begin, data + entry.end}});
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Tensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  for (const auto type :
       {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::e4m3}) {
    if (entry.dtype != safetensors_name(type)) continue;
    Tensor tensor;
    tensor.type = type;
    tensor.dims = entry.dims;
    tensor.bytes = Bytes({mapping_, entry.bytes.data()}, entry.bytes.size());
    return tensor;
  }
  throw UsageError(path_.string() + ": tensor '" + printable(entry.name) + "' has dtype " +
                   printable(entry.dtype, 20) + ", where F32, F16, BF16 or F8_E4M3 is needed");
}

void write_safetensors(const fs::path& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata) {
  const std::string header = header_text(entries, metadata);
  std::uint64_t data_bytes = 0;
  for (const auto& entry : entries) data_bytes += entry.bytes.size();
  parse_header(header, data_bytes, path.string());  // what could not be read is not written

  const std::uint64_t length = header.size();
  NewFile file(target_of(path));
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const auto& entry : entries) file.write(entry.bytes);
  file.complete();
}

}  // namespace lanescope
