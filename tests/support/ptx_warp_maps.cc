// Trials of tensor maps that a kernel changes.

#include <string>
#include <vector>

#include "tests/support/ptx_warp_kernel.h"

namespace lanescope::ptx_warps {

// A tensor map of which the kernel replaces fields, and the box that is copied with it.

namespace {

struct Replacement {
  const char* fields;  ///< replaced, and by what; %d8: another address
  int bytes;           ///< of the box that comes
  const char* words = "b32";
};
const Replacement replacements[] = {
    {"", 1024},
    {"global_address.shared::cta.b1024.b64 [%r6], %d8", 1024},
    {"rank.shared::cta.b1024.b32 [%r6], 1", 1024},
    {"box_dim.shared::cta.b1024.b32 [%r6], 0, 8", 512},
    {"box_dim.shared::cta.b1024.b32 [%r6], 1, 8", 512},
    {"global_dim.shared::cta.b1024.b32 [%r6], 0, 25", 1024},
    {"global_dim.shared::cta.b1024.b32 [%r6], 1, 25", 1024},
    {"global_stride.shared::cta.b1024.b64 [%r6], 0, 64", 1024},
    {"global_stride.shared::cta.b1024.b64 [%r6], 0, 96", 1024},
    {"element_stride.shared::cta.b1024.b32 [%r6], 0, 2", 512},
    {"element_stride.shared::cta.b1024.b32 [%r6], 1, 2", 512},
    {"element_stride.shared::cta.b1024.b32 [%r6], 1, 3", 384},
    {"elemtype.shared::cta.b1024.b32 [%r6], 2", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 3", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 8", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 11", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 12", 1024},
    {"swizzle_mode.shared::cta.b1024.b32 [%r6], 0", 1024},
    {"swizzle_mode.shared::cta.b1024.b32 [%r6], 2", 1024},
    {"swizzle_mode.shared::cta.b1024.b32 [%r6], 1; box_dim.shared::cta.b1024.b32 [%r6], 0, 8", 512},
    {"fill_mode.shared::cta.b1024.b32 [%r6], 1", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 8; fill_mode.shared::cta.b1024.b32 [%r6], 1", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 11; fill_mode.shared::cta.b1024.b32 [%r6], 1", 1024},
    {"interleave_layout.shared::cta.b1024.b32 [%r6], 0", 1024},
    {"swizzle_mode.shared::cta.b1024.b32 [%r6], 2; box_dim.shared::cta.b1024.b32 [%r6], 0, 8", 512},
    {"swizzle_mode.shared::cta.b1024.b32 [%r6], 3", 1024},
    {"element_stride.shared::cta.b1024.b32 [%r6], 0, 2;", 1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 11", 1024, "~tie"},
    {"elemtype.shared::cta.b1024.b32 [%r6], 12", 1024, "~tie"},
    {"elemtype.shared::cta.b1024.b32 [%r6], 11", 1024, "f32"},
};

/// What may end the capture: an H200 calls the last an illegal instruction.
const Replacement last_replacements[] = {
    {"elemtype.shared::cta.b1024.b32 [%r6], 9; fill_mode.shared::cta.b1024.b32 [%r6], 1; "
     "box_dim.shared::cta.b1024.b32 [%r6], 0, 8",
     1024},
    {"elemtype.shared::cta.b1024.b32 [%r6], 10; fill_mode.shared::cta.b1024.b32 [%r6], 1", 512},
    {"elemtype.shared::cta.b1024.b32 [%r6], 6; fill_mode.shared::cta.b1024.b32 [%r6], 1", 512},
};

/// Boxes that go to 28 rows of 32 words, all zeroes but for what the words at p0 are.
struct Departure {
  const char* fields;
  const char* operation;  ///< "", or of a reduction
  const char* words = "b32";
};
const Departure departures[] = {
    {"", ""},
    {"element_stride.shared::cta.b1024.b32 [%r6], 1, 2", ""},
    {"elemtype.shared::cta.b1024.b32 [%r6], 11", "", "~tie"},
    {"elemtype.shared::cta.b1024.b32 [%r6], 12", "", "f32"},
    {"fill_mode.shared::cta.b1024.b32 [%r6], 1", ""},
    {"swizzle_mode.shared::cta.b1024.b32 [%r6], 3", ""},
    {"", "add", "f32"},
    {"elemtype.shared::cta.b1024.b32 [%r6], 8", "add", "f32"},
    {"elemtype.shared::cta.b1024.b32 [%r6], 11", "add", "f32"},
    {"elemtype.shared::cta.b1024.b32 [%r6], 2; element_stride.shared::cta.b1024.b32 [%r6], 1, 2",
     "add"},
};

/// What one thread does to the copy of the map at %r6.
std::string replace(const std::string& fields) {
  std::string text;
  for (const std::string& field : split(fields, ';')) {
    const std::size_t from = field.find_first_not_of(' ');
    if (from == field.npos) continue;
    const auto comma = field.rfind(", ");
    // Sizes and strides lie in registers.
    const std::string value = field.substr(comma + 2);
    const bool wide = field.find(".b64 ") != field.npos;
    const bool counts = std::count(field.begin(), field.end(), ',') == 2;
    if (counts) text += (wide ? "mov.u64 %d9, " : "mov.u32 %r9, ") + value + ";\n";
    text += "@%p0 tensormap.replace.tile." +
            (counts ? field.substr(from, comma + 2 - from) + (wide ? "%d9" : "%r9")
                    : field.substr(from)) +
            ";\n";
  }
  return text;
}

/// 32 moves of words that lie 128 bytes apart, to or from registers %r16, ...
std::string move_words(const std::string& op, const std::string& base, bool stores) {
  std::string text;
  for (int i = 0; i < 32; ++i) {
    text += stores ? move(op, 32, at(base, 128 * i), reg(32, 16 + i))
                   : move(op, 32, reg(32, 16 + i), at(base, 128 * i));
  }
  return text;
}

/// Shared memory `box` at %r5, a map at %r6 with fields replaced, which then lies at p3, an
/// mbarrier at %r7; %r2: the thread's 4 bytes, %r4: those of the box. `fill`: what the box holds.
std::string prepare(const std::string& fields, const std::string& fill) {
  return ".shared .align 1024 .b8 box[4096]; .shared .align 128 .b8 made[128]; "
         ".shared .align 8 .b64 bar;\n"
         "mov.u32 %r5, box; mov.u32 %r6, made; mov.u32 %r7, bar; shl.b32 %r2, %r0, 2;\n"
         "mul.wide.u32 %d4, %r0, 4; add.s64 %d5, %d2, %d4; ld.global.b32 %r3, [%d5];\n"
         "add.u32 %r4, %r2, %r6; st.shared.b32 [%r4], %r3; add.s64 %d8, %d6, 256;\n"
         "add.u32 %r4, %r2, %r5;\n" +
         fill +
         "@%p0 mbarrier.init.shared::cta.b64 [%r7], 1;\n"
         "@%p0 fence.mbarrier_init.release.cluster; fence.proxy.async; bar.sync 0;\n" +
         replace(fields) +
         "bar.sync 0;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu."
         "sync.aligned [%d3], [%r6], 128;\n"
         "fence.proxy.tensormap::generic.acquire.gpu [%d3], 128;\n"
         "mov.u32 %r10, 20; mov.u32 %r11, 20;\n";
}

std::string name_of(const std::string& what, const std::string& fields, const std::string& words) {
  return what + fields + (words == "b32" ? "" : " of " + words);
}

void add_arrival(std::vector<Trial>& all, const Replacement& replacement) {
  std::string fill = "mov.u32 %r3, 0x12345678;\n";
  for (int i = 0; i < 32; ++i) fill += move("st.shared", 32, at("%r4", 128 * i), "%r3");
  const std::string body =
      prepare(replacement.fields, fill) +
      "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], " + number(replacement.bytes) +
      ";\n@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%r5], [%d3, {%r10, %r11}], [%r7];\nmov.u32 %r62, 0;\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r7], 0;\n"
      "@%p1 bra D; add.u32 %r62, %r62, 1; setp.lt.u32 %p2, %r62, 1000; @%p2 bra W;\nD:\n" +
      move_words("ld.shared", "%r4", false) + "selp.u32 %r48, 1, 0, %p1;\n" + leave(32, 16, 33, 0);
  all.push_back(kernel(name_of("tensormap.replace ", replacement.fields, replacement.words), body,
                       several(replacement.words, 32), 33, 32));
}

void add_departure(std::vector<Trial>& all, const Departure& departure) {
  const std::string operation = departure.operation;
  const std::string opcode =
      operation.empty()
          ? "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
          : "cp.reduce.async.bulk.tensor.2d.global.shared::cta." + operation + ".tile.bulk_group";
  // The tensor lies in the kernel's own memory, behind the map, in which half of its words are
  // ones before.
  const std::string fill = load(32, 16, 32, 0) + move_words("st.shared", "%r4", true) +
                           "add.s64 %d8, %d3, 512; add.s64 %d10, %d8, %d4; mov.u32 %r3, 1;\n" +
                           [] {
                             std::string text;
                             for (int i = 20; i < 24; ++i)
                               text += move("st.global", 32, at("%d10", 128 * i), "%r3");
                             return text;
                           }() +
                           "fence.proxy.async;\n";
  const std::string its_address = "global_address.shared::cta.b1024.b64 [%r6], %d8; ";
  const std::string body = prepare(its_address + departure.fields, fill) + "@%p0 " + opcode +
                           " [%d3, {%r10, %r11}], [%r5];\n@%p0 cp.async.bulk.commit_group;\n"
                           "@%p0 cp.async.bulk.wait_group 0;\nbar.sync 0;\n" +
                           [] {
                             std::string text;
                             for (int i = 0; i < 28; ++i)
                               text += move("ld.global", 32, reg(32, 16 + i), at("%d10", 128 * i));
                             return text;
                           }() +
                           leave(32, 16, 28, 0);
  all.push_back(kernel(name_of(opcode + " ", departure.fields, departure.words), body,
                       several(departure.words, 32), 28, 32));
}

}  // namespace

void add_tensor_maps(std::vector<Trial>& all) {
  for (const Replacement& replacement : replacements) add_arrival(all, replacement);
  for (const Departure& departure : departures) add_departure(all, departure);
  for (const Replacement& replacement : last_replacements) add_arrival(all, replacement);
}

}  // namespace lanescope::ptx_warps
