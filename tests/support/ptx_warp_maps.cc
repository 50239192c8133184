// Trials of tensor maps that a kernel changes.

#include <string>
#include <vector>

#include "tests/support/ptx_warp_kernel.h"

namespace lanescope::ptx_warps {

// A tensor map of which the kernel replaces a field, and the box that is copied with it.

namespace {

struct Replacement {
  const char* fields;  ///< replaced, and by what; %d8: another address
  int bytes;           ///< of the box that comes
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
};

}  // namespace

void add_tensor_maps(std::vector<Trial>& all) {
  for (const Replacement& replacement : replacements) {
    std::string replace;
    for (const std::string& field : split(replacement.fields, ';')) {
      const std::size_t from = field.find_first_not_of(' ');
      const auto comma = field.rfind(", ");
      // Sizes and strides lie in registers.
      const std::string value = field.substr(comma + 2);
      const bool wide = field.find(".b64 ") != field.npos;
      const bool counts = std::count(field.begin(), field.end(), ',') == 2;
      if (counts) replace += (wide ? "mov.u64 %d9, " : "mov.u32 %r9, ") + value + ";\n";
      replace += "@%p0 tensormap.replace.tile." +
                 (counts ? field.substr(from, comma + 2 - from) + (wide ? "%d9" : "%r9")
                         : field.substr(from)) +
                 ";\n";
    }
    const std::string body =
        ".shared .align 1024 .b8 box[4096]; .shared .align 128 .b8 made[128]; "
        ".shared .align 8 .b64 bar;\n"
        "mov.u32 %r5, box; mov.u32 %r6, made; mov.u32 %r7, bar; shl.b32 %r2, %r0, 2;\n"
        "mul.wide.u32 %d4, %r0, 4; add.s64 %d5, %d2, %d4; ld.global.b32 %r3, [%d5];\n"
        "add.u32 %r4, %r2, %r6; st.shared.b32 [%r4], %r3; add.s64 %d8, %d6, 256;\n"
        "add.u32 %r4, %r2, %r5; mov.u32 %r3, 0x12345678;\n" +
        [] {
          std::string text;
          for (int i = 0; i < 32; ++i) text += move("st.shared", 32, at("%r4", 128 * i), "%r3");
          return text;
        }() +
        "@%p0 mbarrier.init.shared::cta.b64 [%r7], 1;\n"
        "@%p0 fence.mbarrier_init.release.cluster; fence.proxy.async; bar.sync 0;\n" +
        replace +
        "bar.sync 0;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu."
        "sync.aligned [%d3], [%r6], 128;\n"
        "fence.proxy.tensormap::generic.acquire.gpu [%d3], 128;\n"
        "mov.u32 %r10, 20; mov.u32 %r11, 20;\n"
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], " +
        number(replacement.bytes) +
        ";\n@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r5], [%d3, {%r10, %r11}], [%r7];\nmov.u32 %r62, 0;\n"
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r7], 0;\n"
        "@%p1 bra D; add.u32 %r62, %r62, 1; setp.lt.u32 %p2, %r62, 1000; @%p2 bra W;\nD:\n" +
        [] {
          std::string text;
          for (int i = 0; i < 32; ++i)
            text += move("ld.shared", 32, reg(32, 16 + i), at("%r4", 128 * i));
          return text;
        }() +
        "selp.u32 %r48, 1, 0, %p1;\n" + leave(32, 16, 33, 0);
    all.push_back(kernel(std::string("tensormap.replace ") + replacement.fields, body,
                         several("b32", 32), 33, 32));
  }
}

}  // namespace lanescope::ptx_warps
