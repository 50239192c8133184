// Trials of products of warps, and of their fragments in memory.

#include <string>
#include <vector>

#include "tests/support/ptx_warp_kernel.h"

namespace lanescope::ptx_warps {

// Products of warps, fragment by fragment.

namespace {

struct Fragment {
  const char* type;  ///< of what lies in a register
  int count;
};
struct Product {
  const char* opcode;
  Fragment d, a, b, c;
};
const Product products[] = {
    {"mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32",
     {"~f32", 4},
     {"", 4},
     {"", 2},
     {"~f32", 4}},
    {"mma.sync.aligned.m16n8k32.row.col.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16",
     {"~f16x2", 2},
     {"", 4},
     {"", 2},
     {"~f16x2", 2}},
    {"mma.sync.aligned.m16n8k16.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32",
     {"~f32", 4},
     {"", 2},
     {"", 1},
     {"~f32", 4}},
    {"mma.sync.aligned.m16n8k16.row.col.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16",
     {"~f16x2", 2},
     {"", 2},
     {"", 1},
     {"~f16x2", 2}},
    {"mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32",
     {"~s32", 4},
     {"b32", 4},
     {"b32", 2},
     {"~s32", 4}},
    {"mma.sync.aligned.m16n8k16.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32",
     {"~s32", 4},
     {"b32", 2},
     {"b32", 1},
     {"~s32", 4}},
    {"mma.sync.aligned.m8n8k16.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32",
     {"~s32", 2},
     {"b32", 1},
     {"b32", 1},
     {"~s32", 2}},
    {"mma.sync.aligned.m16n8k64.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32",
     {"~s32", 4},
     {"b32", 4},
     {"b32", 2},
     {"~s32", 4}},
    {"mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32",
     {"~s32", 4},
     {"b32", 2},
     {"b32", 1},
     {"~s32", 4}},
    {"mma.sync.aligned.m8n8k32.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32",
     {"~s32", 2},
     {"b32", 1},
     {"b32", 1},
     {"~s32", 2}},
    {"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{and,xor}.popc",
     {"~s32", 4},
     {"b32", 4},
     {"b32", 2},
     {"~s32", 4}},
    {"mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.{and,xor}.popc",
     {"~s32", 4},
     {"b32", 2},
     {"b32", 1},
     {"~s32", 4}},
    {"mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{and,xor}.popc",
     {"~s32", 2},
     {"b32", 1},
     {"b32", 1},
     {"~s32", 2}},
    {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
     {"~f64", 2},
     {"~f64", 1},
     {"~f64", 1},
     {"~f64", 2}},
    {"mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
     {"~f64", 4},
     {"~f64", 2},
     {"~f64", 1},
     {"~f64", 4}},
    {"mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
     {"~f64", 4},
     {"~f64", 4},
     {"~f64", 2},
     {"~f64", 4}},
    {"mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
     {"~f64", 4},
     {"~f64", 8},
     {"~f64", 4},
     {"~f64", 4}},
    {"mma.sync.aligned.m8n8k4.{row,col}.{row,col}.f32.f16.f16.f32",
     {"~f32", 8},
     {"~f16x2", 2},
     {"~f16x2", 2},
     {"~f32", 8}},
    {"mma.sync.aligned.m8n8k4.{row,col}.{row,col}.f16.f16.f16.f16",
     {"~f16x2", 4},
     {"~f16x2", 2},
     {"~f16x2", 2},
     {"~f16x2", 4}},
    {"wmma.mma.sync.aligned.{row,col}.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.f32.f32",
     {"~f32", 8},
     {"~f16x2", 8},
     {"~f16x2", 8},
     {"~f32", 8}},
    {"wmma.mma.sync.aligned.row.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.f16.f16",
     {"~f16x2", 4},
     {"~f16x2", 8},
     {"~f16x2", 8},
     {"~f16x2", 4}},
    {"wmma.mma.sync.aligned.row.col.{m16n16k16,m32n8k16,m8n32k16}.f16.f32",
     {"~f16x2", 4},
     {"~f16x2", 8},
     {"~f16x2", 8},
     {"~f32", 8}},
    {"wmma.mma.sync.aligned.row.col.{m16n16k16,m32n8k16,m8n32k16}.f32.f16",
     {"~f32", 8},
     {"~f16x2", 8},
     {"~f16x2", 8},
     {"~f16x2", 4}},
    {"wmma.mma.sync.aligned.row.{row,col}.m16n16k16.f32.bf16.bf16.f32",
     {"~f32", 8},
     {"~bf16x2", 4},
     {"~bf16x2", 4},
     {"~f32", 8}},
    {"wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
     {"~f32", 8},
     {"~tf32", 4},
     {"~tf32", 4},
     {"~f32", 8}},
    {"wmma.mma.sync.aligned.row.col.m16n16k16.s32.{s8.s8,u8.u8}.s32",
     {"~s32", 8},
     {"b32", 2},
     {"b32", 2},
     {"~s32", 8}},
    {"wmma.mma.sync.aligned.{row,col}.{row,col}.m16n16k16.s32.{s8.s8,u8.u8}.s32.satfinite",
     {"~s32", 8},
     {"b32", 2},
     {"b32", 2},
     {"~s32", 8}},
    {"wmma.mma.sync.aligned.row.{row,col}.m32n8k16.s32.{s8.s8,u8.u8}.s32{,.satfinite}",
     {"~s32", 8},
     {"b32", 4},
     {"b32", 1},
     {"~s32", 8}},
    {"wmma.mma.sync.aligned.row.{row,col}.m8n32k16.s32.{s8.s8,u8.u8}.s32{,.satfinite}",
     {"~s32", 8},
     {"b32", 1},
     {"b32", 4},
     {"~s32", 8}},
    {"wmma.mma.sync.aligned.row.col.m8n8k32.s32.{s4.s4,u4.u4}.s32{,.satfinite}",
     {"~s32", 2},
     {"b32", 1},
     {"b32", 1},
     {"~s32", 2}},
    {"wmma.mma.{and,xor}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
     {"~s32", 2},
     {"b32", 1},
     {"b32", 1},
     {"~s32", 2}},
    {"wmma.mma.sync.aligned.{row,col}.{row,col}.m8n8k4{,.rn,.rz,.rm,.rp}.f64.f64.f64.f64",
     {"~f64", 2},
     {"~f64", 1},
     {"~f64", 1},
     {"~f64", 2}},
    {"wmma.mma.sync.aligned.row.{row,col}.m32n8k16.f32.bf16.bf16.f32",
     {"~f32", 8},
     {"~bf16x2", 8},
     {"~bf16x2", 2},
     {"~f32", 8}},
    {"wmma.mma.sync.aligned.row.{row,col}.m8n32k16.f32.bf16.bf16.f32",
     {"~f32", 8},
     {"~bf16x2", 2},
     {"~bf16x2", 8},
     {"~f32", 8}},
};

}  // namespace

void add_products(std::vector<Trial>& all) {
  for (const Product& product : products) {
    for (const std::string& opcode : expand(product.opcode)) {
      const Words parts = split(opcode, '.');
      // A register of bytes is of the type that the opcode names.
      const auto type_of = [&](const Fragment& fragment, std::size_t from_end) {
        return *fragment.type ? std::string(fragment.type) : "~" + parts[parts.size() - from_end];
      };
      Words in;
      std::string body, operands;
      int words = 0, registers = 8;
      for (const auto& [fragment, from_end] :
           {std::pair{&product.a, 3u}, std::pair{&product.b, 2u}, std::pair{&product.c, 1u}}) {
        const std::string type = type_of(*fragment, from_end);
        const int bits = bits_of(type);
        append(in, several(type, fragment->count));
        body += load(bits, registers, fragment->count, words);
        operands += ", " + list(bits, registers, fragment->count);
        registers += fragment->count;
        words += fragment->count * bits / 32;
      }
      const int bits = bits_of(product.d.type);
      body += opcode + " " + list(bits, 48, product.d.count) + operands + ";\n" +
              leave(bits, 48, product.d.count, 0);
      all.push_back(kernel(opcode, body, in, product.d.count * bits / 32, 256));
    }
  }
}

// Where the fragments of wmma lie.

namespace {

struct Transfer {
  const char* opcode;
  int registers;
  int words;  ///< of memory, of each lane
};
const Transfer transfers[] = {
    {"wmma.load.{a,b}.sync.aligned.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.global.f16", 8, 8},
    {"wmma.load.{a,b}.sync.aligned.{row,col}.m16n16k16.global.bf16", 4, 8},
    {"wmma.load.{a,b}.sync.aligned.{row,col}.m16n16k16.global.{s8,u8}", 2, 8},
    {"wmma.load.{a,b}.sync.aligned.{row,col}.m16n16k8.global.tf32", 4, 16},
    {"wmma.load.c.sync.aligned.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.global.f16", 4, 8},
    {"wmma.load.c.sync.aligned.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.global.f32", 8, 16},
    {"wmma.load.c.sync.aligned.{row,col}.m16n16k16.global.s32", 8, 16},
    {"wmma.store.d.sync.aligned.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.global.f16", 4, 8},
    {"wmma.store.d.sync.aligned.{row,col}.{m16n16k16,m32n8k16,m8n32k16}.global.f32", 8, 16},
    {"wmma.store.d.sync.aligned.{row,col}.m16n16k16.global.s32", 8, 16},
    {"wmma.load.a.sync.aligned.{row,col}.m32n8k16.global.{s8,u8}", 4, 8},
    {"wmma.load.a.sync.aligned.{row,col}.m8n32k16.global.{s8,u8}", 1, 8},
    {"wmma.load.b.sync.aligned.{row,col}.m32n8k16.global.{s8,u8}", 1, 8},
    {"wmma.load.b.sync.aligned.{row,col}.m8n32k16.global.{s8,u8}", 4, 8},
    {"wmma.load.a.sync.aligned.{row,col}.m32n8k16.global.bf16", 8, 8},
    {"wmma.load.a.sync.aligned.{row,col}.m8n32k16.global.bf16", 2, 8},
    {"wmma.load.b.sync.aligned.{row,col}.m32n8k16.global.bf16", 2, 8},
    {"wmma.load.b.sync.aligned.{row,col}.m8n32k16.global.bf16", 8, 8},
    {"wmma.load.a.sync.aligned.row.m8n8k32.global.{s4,u4}", 1, 8},
    {"wmma.load.b.sync.aligned.col.m8n8k32.global.{s4,u4}", 1, 8},
    {"wmma.load.a.sync.aligned.row.m8n8k128.global.b1", 1, 8},
    {"wmma.load.b.sync.aligned.col.m8n8k128.global.b1", 1, 8},
    {"wmma.load.c.sync.aligned.{row,col}.{m8n8k32,m8n8k128}.global.s32", 2, 8},
    {"wmma.load.c.sync.aligned.{row,col}.{m32n8k16,m8n32k16}.global.s32", 8, 16},
    {"wmma.store.d.sync.aligned.{row,col}.{m8n8k32,m8n8k128}.global.s32", 2, 8},
    {"wmma.store.d.sync.aligned.{row,col}.{m32n8k16,m8n32k16}.global.s32", 8, 16},
    {"wmma.load.{a,b}.sync.aligned.{row,col}.m8n8k4.global.f64", 1, 8},
    {"wmma.load.c.sync.aligned.{row,col}.m8n8k4.global.f64", 2, 8},
    {"wmma.store.d.sync.aligned.{row,col}.m8n8k4.global.f64", 2, 8},
};

/// Elements from one row or column to the next: of a matrix of 32 columns and more 32, of elements
/// of less than a byte a whole row.
int stride_of(const std::string& opcode) {
  const bool sums = opcode.find(".c.") != opcode.npos || opcode.find(".d.") != opcode.npos;
  if (!sums && opcode.find("k128") != opcode.npos) return 128;
  return opcode.find("16n16") != opcode.npos ? 16 : 32;
}

}  // namespace

void add_transfers(std::vector<Trial>& all) {
  for (const Transfer& transfer : transfers) {
    for (const std::string& opcode : expand(transfer.opcode)) {
      const bool loads = opcode.starts_with("wmma.load");
      const int bits = opcode.ends_with("f64") ? 64 : 32;
      const std::string fragment = list(bits, 8, transfer.registers);
      const std::string stride = number(stride_of(opcode));
      const int words = stride == "16" ? transfer.words : 4 * transfer.words;
      const int held = transfer.registers * bits / 32;
      if (loads) {
        all.push_back(kernel(opcode,
                             opcode + " " + fragment + ", [%d6], " + stride + ";\n" +
                                 leave(bits, 8, transfer.registers, 0),
                             several("b32", words), held, 32));
      } else {
        all.push_back(kernel(opcode,
                             load(bits, 8, transfer.registers, 0) + opcode + " [%d7], " + fragment +
                                 ", " + stride + ";\n",
                             several(bits == 64 ? "b64" : "b32", transfer.registers), words, 32));
      }
    }
  }
}

}  // namespace lanescope::ptx_warps
