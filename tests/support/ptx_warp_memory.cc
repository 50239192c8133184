// Trials of atomics, of stores to other blocks, of bulk reductions, and of what lanes have of each
// other.

#include <string>
#include <vector>

#include "tests/support/ptx_warp_kernel.h"

namespace lanescope::ptx_warps {

// Atomics: what was there, the number (and cas: what it becomes); leaves what is there then, and
// what atom returned.

void add_atomics(std::vector<Trial>& all) {
  const char* const forms[] = {
      "atom.{global,shared}.add.{u32,s32,u64,f32,f64}",
      "atom.{global,shared}.add.noftz.{f16,bf16,f16x2,bf16x2}",
      "atom.{global,shared}.{min,max}.{u32,s32,u64,s64}",
      "atom.{global,shared}.{inc,dec}.u32",
      "atom.{global,shared}.{and,or,xor,exch}.{b32,b64}",
      "atom.{global,shared}.cas.{b16,b32,b64}",
      "red.{global,shared}.add.{u32,u64,f32,f64}",
      "red.{global,shared}.add.noftz.{f16,bf16,f16x2,bf16x2}",
      "red.{global,shared}.{min,max}.{u32,s32,u64,s64}",
      "{red,atom}.global.add.{v2,v4}.f32",
      "{red,atom}.global.{add,min,max}.noftz.{v2,v4}.{f16x2,bf16x2}",
      "{red,atom}.global.{add,min,max}.noftz.{v2,v4,v8}.{f16,bf16}",
  };
  for (const char* form : forms) {
    for (const std::string& opcode : expand(form)) {
      const Words parts = split(opcode, '.');
      const std::string type = parts.back(), vector = parts[parts.size() - 2];
      const int bits = bits_of(type), count = vector[0] == 'v' ? vector[1] - '0' : 1;
      const int words = bits == 64 ? 2 : count;  // of what is there
      const bool returns = parts[0] == "atom", compares = parts[2] == "cas";
      const bool is_shared = parts[1] == "shared";
      const std::string cell = is_shared ? "%r2" : "%d4";
      std::string body = is_shared ? ".shared .align 16 .b8 cells[5120];\nmov.u32 %r2, cells; "
                                     "mad.lo.u32 %r2, %r0, 32, %r2;\n"
                                   : "mul.wide.u32 %d4, %r0, 32; add.s64 %d4, %d4, %d3;\n";
      body += load(bits, 8, (compares ? 3 : 2) * count, 0);
      for (int i = 0; i < count; ++i)
        body += move("st." + parts[1], bits, at(cell, i * bits / 8), reg(bits, 8 + i));
      const auto operand = [&](int first) {
        return count > 1 ? list(bits, first, count) : reg(bits, first);
      };
      body += opcode + " " + (returns ? operand(40) + ", " : "") + "[" + cell + "], " +
              operand(8 + count) + (compares ? ", " + reg(bits, 10) : "") + ";\n";
      for (int i = 0; i < count; ++i)
        body += move("ld." + parts[1], bits, reg(bits, 32 + i), at(cell, i * bits / 8));
      body += leave(bits, 32, count, 0);
      if (returns) body += leave(bits, 40, count, words);
      all.push_back(kernel(opcode, body, several(type, (compares ? 3 : 2) * count),
                           words * (returns ? 2 : 1), 160));
    }
  }
}

// Two blocks of a cluster, each of whose threads stores to its like in the other.

void add_async_stores(std::vector<Trial>& all) {
  const std::string completes = ".shared::cluster.mbarrier::complete_tx::bytes.";
  const std::string forms[] = {
      "st.async.weak" + completes + "{b32,b64,u32,s64,f32,f64}",
      "st.async.weak" + completes + "{v2,v4}.{b32,f32}",
      "st.async.weak" + completes + "v2.{b64,f64}",
      "red.async.relaxed.cluster" + completes + "{inc,dec,add,min,max}.u32",
      "red.async.relaxed.cluster" + completes + "{add,min,max}.s32",
      "red.async.relaxed.cluster" + completes + "add.u64",
      "red.async.relaxed.cluster" + completes + "{and,or,xor}.b32"};
  for (const std::string& form : forms) {
    for (const std::string& opcode : expand(form)) {
      const Words parts = split(opcode, '.');
      const std::string type = parts.back(), vector = parts[parts.size() - 2];
      const int bits = bits_of(type), count = vector[0] == 'v' ? vector[1] - '0' : 1;
      std::string body =
          ".shared .align 16 .b8 box[1024]; .shared .align 8 .b64 bar;\n"
          "mov.u32 %r2, box; mad.lo.u32 %r2, %r0, 16, %r2; mov.u32 %r3, bar;\n"
          "mov.u32 %r4, %cluster_ctarank; xor.b32 %r4, %r4, 1;\n"
          "mapa.shared::cluster.u32 %r5, %r2, %r4; mapa.shared::cluster.u32 %r6, %r3, %r4;\n" +
          load(bits, 8, 2 * count, 0);
      for (int i = 0; i < count; ++i)
        body += move("st.shared", bits, at("%r2", i * bits / 8), reg(bits, 8 + i));
      body +=
          "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\n"
          "@%p0 fence.mbarrier_init.release.cluster;\n"
          "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], " +
          number(64 * count * bits / 8) +
          ";\nbarrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n" +
          opcode + " [%r5], " + (count > 1 ? list(bits, 8 + count, count) : reg(bits, 8 + count)) +
          ", [%r6];\nmov.u32 %r62, 0;\n"
          "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r3], 0;\n"
          "@%p1 bra D; add.u32 %r62, %r62, 1; setp.lt.u32 %p2, %r62, 1000; @%p2 bra W;\nD:\n";
      for (int i = 0; i < count; ++i)
        body += move("ld.shared", bits, reg(bits, 32 + i), at("%r2", i * bits / 8));
      body += leave(bits, 32, count, 0) +
              "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";
      all.push_back(kernel(opcode, body, several(type, 2 * count), count * bits / 32, 64, 2));
    }
  }
}

// Reductions of bulk copies: of each lane 16 bytes, by special values too.

void add_bulk_reductions(std::vector<Trial>& all) {
  const char* const forms[] = {"add.{u32,s32,u64}",      "{min,max}.{u32,s32,u64,s64}",
                               "{inc,dec}.u32",          "add.{f32,f64}",
                               "{and,or,xor}.{b32,b64}", "add.noftz.{f16,bf16}",
                               "{min,max}.{f16,bf16}"};
  for (const char* form : forms) {
    for (const std::string& words : expand(form)) {
      const std::string type = split(words, '.').back(),
                        opcode = "cp.reduce.async.bulk.global.shared::cta.bulk_group." + words;
      const int bits = bits_of(type), count = 128 / bits;
      std::string body =
          ".shared .align 16 .b8 box[2560];\n"
          "mov.u32 %r2, box; mad.lo.u32 %r2, %r0, 16, %r2; mul.wide.u32 %d4, %r0, "
          "16; add.s64 %d4, %d4, %d3;\n" +
          load(bits, 8, 2 * count, 0);
      for (int i = 0; i < count; ++i) {
        body += move("st.global", bits, at("%d4", i * bits / 8), reg(bits, 8 + i)) +
                move("st.shared", bits, at("%r2", i * bits / 8), reg(bits, 8 + count + i));
      }
      body += "fence.proxy.async;\n" + opcode +
              " [%d4], [%r2], 16;\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
              "fence.proxy.async;\n";
      for (int i = 0; i < count; ++i)
        body += move("ld.global", bits, reg(bits, 32 + i), at("%d4", i * bits / 8));
      body += leave(bits, 32, count, 0);
      all.push_back(kernel(opcode, body, several(type, 2 * count), bits == 64 ? 4 : count, 160));
    }
  }
}

// What lanes have of each other.

void add_exchanges(std::vector<Trial>& all) {
  const char* const forms[] = {"redux.sync.{add,min,max}.{u32,s32}", "redux.sync.{and,or,xor}.b32"};
  for (const char* form : forms) {
    for (const std::string& opcode : expand(form)) {
      const std::string type = split(opcode, '.').back();
      all.push_back(kernel(
          opcode, load(32, 8, 1, 0) + opcode + " %r9, %r8, 0xffffffff;\n" + leave(32, 9, 1, 0),
          {type}, 1, 160));
    }
  }
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (const char* clamp : {"0", "31", "0x1807", "0x1c04"}) {
      const std::string opcode = std::string("shfl.sync.") + mode + ".b32";
      all.push_back(kernel(opcode + " " + clamp,
                           load(32, 8, 2, 0) + opcode + " %r10|%p1, %r8, %r9, " + clamp +
                               ", 0xffffffff;\nselp.u32 %r11, 1, 0, %p1;\n" + leave(32, 10, 2, 0),
                           {"b32", "b32"}, 2, 160));
    }
  }
}

}  // namespace lanescope::ptx_warps
