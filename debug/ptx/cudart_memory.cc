// Memory and copies.

#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <utility>

#include "debug/ptx/cudart_stream.h"

namespace {

using namespace lanescope::cudart;

/// cudaMemcpyKind: which of the two ends is the device's; of `by_address` each that lies there.
enum class CopyKind : int { host_to_host, to_device, from_device, on_device, by_address };

bool may_copy(LockedDevice& locked, const void* to, const void* from, std::size_t bytes, int kind) {
  const auto is_on_device = [&](const void* at) { return locked->holds(at, 0); };
  const auto fits = [&](const void* at) { return locked->holds(at, bytes); };
  switch (static_cast<CopyKind>(kind)) {
    case CopyKind::host_to_host:
      return true;
    case CopyKind::to_device:
      return fits(to);
    case CopyKind::from_device:
      return fits(from);
    case CopyKind::on_device:
      return fits(to) && fits(from);
    case CopyKind::by_address:
      return (!is_on_device(to) || fits(to)) && (!is_on_device(from) || fits(from));
  }
  return false;
}

/// Sets bytes to zero. Of a large buffer of the problem the pages go back, which are zeros then and
/// take no memory until they are written.
void clear(std::byte* memory, std::size_t bytes) {
  constexpr std::size_t large = std::size_t{64} << 20, page = 1 << 12;
  const std::size_t before = (page - std::bit_cast<std::uintptr_t>(memory) % page) % page;
  const std::size_t whole = bytes > large ? (bytes - before) / page * page : 0;
  const bool freed = whole > 0 && madvise(memory + before, whole, MADV_REMOVE) == 0;
  if (!freed) return void(std::memset(memory, 0, bytes));
  std::memset(memory, 0, before);
  std::memset(memory + before + whole, 0, bytes - before - whole);
}

}  // namespace

namespace lanescope::cudart {

Error copy(void* to, const void* from, std::size_t bytes, int kind) {
  LockedDevice locked;
  locked->settle();
  if (failure() != success) return note(failure());
  if (bytes == 0) return success;
  if (!to || !from || !may_copy(locked, to, from, bytes, kind)) return note(invalid_value);
  std::memmove(to, from, bytes);
  locked->note_write(to, from, bytes);
  return success;
}

Error fill(void* memory, int value, std::size_t bytes) {
  LockedDevice locked;
  locked->settle();
  if (failure() != success) return note(failure());
  if (bytes == 0) return success;
  if (!locked->holds(memory, bytes)) return note(invalid_value);
  value == 0 ? clear(static_cast<std::byte*>(memory), bytes)
             : void(std::memset(memory, value, bytes));
  locked->note_write(memory, nullptr, bytes);
  return success;
}

}  // namespace lanescope::cudart

namespace {

Error copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                std::size_t width, std::size_t height, int kind) {
  for (std::size_t row = 0; row < height; ++row) {
    const Error error = copy(static_cast<char*>(to) + row * to_pitch,
                             static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (error != success) return error;
  }
  return success;
}

Error fill_rows(void* memory, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    const Error error = fill(static_cast<char*>(memory) + row * pitch, value, width);
    if (error != success) return error;
  }
  return success;
}

Error allocate(void** memory, std::size_t bytes, bool of_host) {
  if (!memory) return note(invalid_value);
  *memory = bytes == 0 ? nullptr : device()->allocate(bytes, of_host);
  return bytes != 0 && !*memory ? note(out_of_memory) : success;
}

Error release(void* memory) {
  const LockedDevice locked;
  if (failure() != success) return note(failure());
  return !memory || locked->release(memory) ? success : note(invalid_value);
}

/// Where `bytes` of the device's variable begin; nullptr where it has not got them.
char* in_symbol(const void* symbol, std::size_t bytes, std::size_t offset) {
  const auto [memory, size] = device()->find_variable(symbol);
  const bool fits = memory && offset <= size && bytes <= size - offset;
  return fits ? static_cast<char*>(memory) + offset : nullptr;
}

Error copy_to_symbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                     int kind) {
  char* to = in_symbol(symbol, bytes, offset);
  return to ? copy(to, from, bytes, kind) : note(invalid_symbol);
}

Error copy_from_symbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                       int kind) {
  const char* from = in_symbol(symbol, bytes, offset);
  return from ? copy(to, from, bytes, kind) : note(invalid_symbol);
}

/// cudaPointerAttributes
struct PointerAttributes {
  int type;  ///< cudaMemoryType
  int device;
  void* on_device;
  void* on_host;
};

}  // namespace

extern "C" {

Error cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes, false); }
Error cudaMallocAsync(void** memory, std::size_t bytes, Stream) {
  return allocate(memory, bytes, false);
}
/// There is one pool, which keeps nothing back.
Error cudaDeviceGetDefaultMemPool(void** pool, int id) {
  static char the_pool;
  *pool = &the_pool;
  return id == 0 ? success : note(invalid_device);
}
Error cudaDeviceGetMemPool(void** pool, int id) { return cudaDeviceGetDefaultMemPool(pool, id); }
Error cudaDeviceSetMemPool(int, void*) { return success; }
Error cudaMemPoolCreate(void** pool, const void*) { return cudaDeviceGetDefaultMemPool(pool, 0); }
Error cudaMemPoolDestroy(void*) { return success; }
Error cudaMemPoolSetAttribute(void*, int, void*) { return success; }
Error cudaMemPoolGetAttribute(void*, int, void* value) {
  std::memset(value, 0, sizeof(std::uint64_t));
  return success;
}
Error cudaMemPoolTrimTo(void*, std::size_t) { return success; }
Error cudaMemPoolSetAccess(void*, const void*, std::size_t) { return success; }
Error cudaStreamAttachMemAsync(Stream, void*, std::size_t, unsigned) { return success; }
Error cudaHostGetFlags(unsigned* flags, void*) {
  *flags = 0;
  return success;
}
Error cudaMallocFromPoolAsync(void** memory, std::size_t bytes, void*, Stream) {
  return allocate(memory, bytes, false);
}
Error cudaMallocManaged(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes, true);
}
Error cudaMallocHost(void** memory, std::size_t bytes) { return allocate(memory, bytes, true); }
Error cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes, true);
}
Error cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width, std::size_t height) {
  constexpr std::size_t alignment = 512;
  *pitch = (width + alignment - 1) / alignment * alignment;
  return allocate(memory, *pitch * height, false);
}
Error cudaFree(void* memory) { return release(memory); }
/// Memory that a graph has stays its own, for the launches that come.
Error cudaFreeAsync(void* memory, Stream stream) {
  return capture_of(stream) ? success : release(memory);
}
Error cudaFreeHost(void* memory) { return release(memory); }
Error cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  device()->map(memory, bytes);
  return success;
}
Error cudaHostUnregister(void* memory) {
  return device()->unmap(memory) ? success : note(invalid_value);
}
Error cudaHostGetDevicePointer(void** on_device, void* memory, unsigned) {
  *on_device = memory;
  return success;
}

Error cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  return copy(to, from, bytes, kind);
}
Error cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, Stream stream) {
  return in_stream(stream, [=] { return copy(to, from, bytes, kind); });
}
Error cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return copy(to, from, bytes, static_cast<int>(CopyKind::on_device));
}
Error cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, Stream stream) {
  return in_stream(stream,
                   [=] { return copy(to, from, bytes, static_cast<int>(CopyKind::on_device)); });
}
Error cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height, int kind) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind);
}
Error cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                        std::size_t width, std::size_t height, int kind, Stream stream) {
  return in_stream(stream,
                   [=] { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind); });
}
Error cudaMemset(void* memory, int value, std::size_t bytes) { return fill(memory, value, bytes); }
Error cudaMemsetAsync(void* memory, int value, std::size_t bytes, Stream stream) {
  return in_stream(stream, [=] { return fill(memory, value, bytes); });
}
Error cudaMemset2D(void* memory, std::size_t pitch, int value, std::size_t width,
                   std::size_t height) {
  return fill_rows(memory, pitch, value, width, height);
}
Error cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width,
                        std::size_t height, Stream stream) {
  return in_stream(stream, [=] { return fill_rows(memory, pitch, value, width, height); });
}
Error cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = global_bytes;
  *free = global_bytes - std::min(global_bytes, device()->allocated());
  return success;
}
struct Location {  // cudaMemLocation
  int type, id;
};
Error cudaMemPrefetchAsync(const void*, std::size_t, Location, unsigned, Stream) { return success; }
Error cudaMemAdvise(const void*, std::size_t, int, Location) { return success; }
Error cudaPointerGetAttributes(PointerAttributes* attributes, const void* memory) {
  constexpr int unregistered = 0, on_device = 2;
  const bool known = device()->holds(memory, 0);
  void* at = const_cast<void*>(memory);
  *attributes = {known ? on_device : unregistered, known ? 0 : -2, known ? at : nullptr,
                 known ? nullptr : at};
  return success;
}

struct ChannelFormat {  // cudaChannelFormatDesc
  int x, y, z, w, kind;
};
ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}

Error cudaGetSymbolAddress(void** memory, const void* symbol) {
  *memory = device()->find_variable(symbol).first;
  return *memory ? success : note(invalid_symbol);
}
Error cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  *bytes = device()->find_variable(symbol).second;
  return *bytes != 0 ? success : note(invalid_symbol);
}
Error cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                         std::size_t offset, int kind) {
  return copy_to_symbol(symbol, from, bytes, offset, kind);
}
Error cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                              std::size_t offset, int kind, Stream stream) {
  return in_stream(stream, [=] { return copy_to_symbol(symbol, from, bytes, offset, kind); });
}
Error cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                           int kind) {
  return copy_from_symbol(to, symbol, bytes, offset, kind);
}
Error cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                int kind, Stream stream) {
  return in_stream(stream, [=] { return copy_from_symbol(to, symbol, bytes, offset, kind); });
}

}  // extern "C"
