#include "tests/support/ptx_conformance.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "reference/splitmix64.h"

namespace lanescope::ptx_conformance {

using Words = std::vector<std::string>;

Words split(const std::string& text, char at) {
  Words words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, at);) words.push_back(word);
  if (!text.empty() && text.back() == at) words.emplace_back();
  return words;
}

Words expand(const std::string& text) {
  const std::size_t open = text.find('{');
  if (open == text.npos) return {text};
  const std::size_t close = text.find('}', open);
  Words all;
  for (const std::string& word : split(text.substr(open + 1, close - open - 1), ',')) {
    for (const std::string& rest : expand(text.substr(close + 1))) {
      all.push_back(text.substr(0, open) + word + rest);
    }
  }
  return all;
}

namespace {

/// Opcode, result, operands. T: the last word of the opcode.
const char* const forms[] = {
    // Integer arithmetic.
    "{add,sub}.{u16,s16,u32,s32,u64,s64} T T T",
    "{add,sub}.sat.s32 T T T",
    "mul.lo.{u16,s16,u32,s32,u64,s64} T T T",
    "mul.hi.{u16,s16,u32,s32,u64,s64} T T T",
    "mul.wide.u16 u32 T T",
    "mul.wide.s16 s32 T T",
    "mul.wide.u32 u64 T T",
    "mul.wide.s32 s64 T T",
    "mad.lo.{u16,s16,u32,s32,u64,s64} T T T T",
    "mad.hi.{u16,s16,u32,s32,u64,s64} T T T T",
    "mad.hi.sat.s32 T T T T",
    "mad.wide.u16 u32 T T u32",
    "mad.wide.s16 s32 T T s32",
    "mad.wide.u32 u64 T T u64",
    "mad.wide.s32 s64 T T s64",
    "mul24.{lo,hi}.{u32,s32} T T T",
    "mad24.{lo,hi}.{u32,s32} T T T T",
    "mad24.hi.sat.s32 T T T T",
    "sad.{u16,s16,u32,s32,u64,s64} T T T T",
    "{min,max,div,rem}.{u16,s16,u32,s32,u64,s64} T T T",
    "{min,max}.{u16x2,s16x2} b32 b32 b32",
    "{min,max}.relu.s32 T T T",
    "add.{u16x2,s16x2} b32 b32 b32",
    "{abs,neg}.{s16,s32,s64} T T",
    "popc.b32 u32 T",
    "popc.b64 u32 T",
    "clz.b32 u32 T",
    "clz.b64 u32 T",
    "bfind.{u32,s32,u64,s64} u32 T",
    "bfind.shiftamt.{u32,s32,u64,s64} u32 T",
    "brev.{b32,b64} T T",
    "bfe.{u32,s32,u64,s64} T T u32 u32",
    "bfi.{b32,b64} T T T u32 u32",
    "fns.b32 T T u32 s32",
    "bmsk.{wrap,clamp}.b32 T T T",
    "szext.{wrap,clamp}.{u32,s32} T T u32",
    "dp4a.u32.u32 u32 u32 u32 u32",
    "dp4a.{s32.u32,u32.s32,s32.s32} s32 b32 b32 s32",
    "dp2a.{lo,hi}.u32.u32 u32 u32 u32 u32",
    "dp2a.{lo,hi}.{s32.u32,u32.s32,s32.s32} s32 b32 b32 s32",
    // Logic, shifts, bytes.
    "{and,or,xor}.{b16,b32,b64} T T T",
    "{not,cnot}.{b16,b32,b64} T T",
    "{shl,shr}.{b16,b32,b64} T T u32",
    "shr.{u16,s16,u32,s32,u64,s64} T T u32",
    "shf.{l,r}.{wrap,clamp}.b32 T T T u32",
    "lop3.b32 T T T T 0x96",
    "lop3.b32 T T T T 0xe8",
    "lop3.b32 T T T T 0x1b",
    "prmt.b32 T T T T",
    "prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16} b32 b32 b32 b32",
    // Comparison and selection.
    "setp.{eq,ne,lt,le,gt,ge}.{s16,s32,s64} pred T T",
    "setp.{eq,ne,lo,ls,hi,hs,lt,ge}.{u16,u32,u64} pred T T",
    "setp.{eq,ne}.{b16,b32,b64} pred T T",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32 pred T T",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64 pred T T",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16 pred T T",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16 pred T T",
    "set.{lt,geu,nan}.u32.{f32,f64,f16,s32} u32 T T",
    "set.{lt,geu}.f32.{f32,s32} f32 T T",
    "set.{lt,geu}{,.ftz}.f16x2.f16x2 b32 f16x2 f16x2",
    "set.{lt,geu}.bf16x2.bf16x2 b32 bf16x2 bf16x2",
    "selp.{b16,u32,f32,b64} T T T pred",
    "slct.{b32,u64,f32}.s32 b T T s32",
    "slct{,.ftz}.f32.f32 f32 f32 f32 f32",
    // Single and double precision.
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32 T T T",
    "fma.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32 T T T T",
    "mad.{rn,rz}{,.ftz}.f32 T T T T",
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64 T T T",
    "fma.{rn,rz,rm,rp}.f64 T T T T",
    "div.{rn,rz,rm,rp}{,.ftz}.f32 T T T",
    "div.{rn,rz,rm,rp}.f64 T T T",
    "div.{approx,full}{,.ftz}.f32 T T T",
    "{rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32 T T",
    "{rcp,sqrt}.{rn,rz,rm,rp}.f64 T T",
    "{rcp,sqrt,rsqrt,ex2,lg2,sin,cos}.approx{,.ftz}.f32 T T",
    "tanh.approx.f32 T T",
    "rcp.approx.ftz.f64 T T",
    "rsqrt.approx{,.ftz}.f64 T T",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32 T T T",
    "{min,max}.f64 T T T",
    "{abs,neg}{,.ftz}.f32 T T",
    "{abs,neg}.f64 T T",
    "copysign.{f32,f64} T T T",
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64} pred T",
    // Half precision.
    "{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2} T T T",
    "{add,sub,mul}{,.rn}.{bf16,bf16x2} T T T",
    "fma.rn{,.ftz}{,.sat,.relu}.{f16,f16x2} T T T T",
    "fma.rn{,.relu}.{bf16,bf16x2} T T T T",
    "{abs,neg}.{f16,f16x2,bf16,bf16x2} T T",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.{f16,f16x2} T T T",
    "{min,max}{,.NaN}{,.xorsign.abs}.{bf16,bf16x2} T T T",
    "{tanh,ex2}.approx.{f16,f16x2} T T",
    "tanh.approx.{bf16,bf16x2} T T",
    "ex2.approx.ftz.{bf16,bf16x2} T T",
    // Conversions.
    "cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64} D S",
    "cvt.sat.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64} D S",
    "cvt.{rni,rzi,rmi,rpi}{,.sat}.{u8,s8,u16,s16,u32,s32,u64,s64}.{f16,bf16,f32,f64} D S",
    "cvt.{rni,rzi,rmi,rpi}.ftz.{s8,s16,u32,s32,s64}.f32 D S",
    "cvt.{rn,rz,rm,rp}.{f16,bf16,f32,f64}.{u8,s8,u16,s16,u32,s32,u64,s64} D S",
    "cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f16.f32 D S",
    "cvt.{rn,rz,rm,rp}{,.sat}.{f16,f32}.f64 D S",
    "cvt.{rn,rz,rm,rp}.ftz.f32.f64 D S",
    "cvt.{rn,rz}{,.relu}{,.satfinite}.bf16.f32 D S",
    "cvt.{rn,rz}.relu.f16.f32 D S",
    "cvt{,.ftz}{,.sat}.f32.f16 D S",
    "cvt{,.ftz}.f32.bf16 D S",
    "cvt.f64.{f16,bf16,f32} D S",
    "cvt.{rni,rzi,rmi,rpi}{,.ftz}.f32.f32 D S",
    "cvt.{rni,rzi,rmi,rpi}.{f64.f64,f16.f16} D S",
    "cvt.{rn,rz}{,.relu}.{f16x2,bf16x2}.f32 b32 f32 f32",
    "cvt.rna.tf32.f32 b32 f32",
    "cvt.{rn,rz}{,.relu}.tf32.f32 b32 f32",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32 b16 f32 f32",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2 b16 f16x2",
    "cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2} b32 b16",
    "cvt.{rni,rzi,rmi,rpi}.bf16.bf16 D S",
    "cvt.{rni,rzi,rmi,rpi}{,.ftz}.sat.f32.f32 D S",
    "cvt.{rni,rzi,rmi,rpi}.sat.{f64.f64,f16.f16} D S",
    "cvt{,.ftz}.sat.f32.f32 D S",
    "cvt.sat.{f64.f64,f16.f16} D S",
    "cvt.{rni,rzi,rmi,rpi}.ftz.{u8,u16,u64}.f32 D S",
    "cvt.{rni,rzi,rmi,rpi}.ftz.sat.{u8,s8,u16,s16,u32,s32,u64,s64}.f32 D S",
    "cvt.{rn,rz,rm,rp}.sat.{f16,f32,f64}.{u8,s8,u16,s16,u32,s32,u64,s64} D S",
    "cvt.{rn,rz,rm,rp}.bf16.{f16,f64} D S",
    "cvt.{rn,rz,rm,rp}.f16.bf16 D S",
    "cvt.{rn,rz}{,.relu}.satfinite.{f16x2,bf16x2}.f32 b32 f32 f32",
    "cvt.{rn,rz}{,.relu}.satfinite.f16.f32 D S",
    "cvt.rna.satfinite.tf32.f32 b32 f32",
    "cvt.{rn,rz}{,.relu}.satfinite.tf32.f32 b32 f32",
    "cvt.pack.sat.{u16,s16}.s32 b32 s32 s32",
    "cvt.pack.sat.{u8,s8}.s32.b32 b32 s32 s32 b32",
    "fma.rn{,.relu}.oob.{f16,f16x2,bf16,bf16x2} T T T T",
    "fma.rn{,.relu}.oob.{f16,bf16} T oob16 oob16 oob16",
    "fma.rn{,.relu}.oob.{f16x2,bf16x2} T oob16x2 oob16x2 oob16x2",
};

bool is_number(const std::string& operand) {
  return std::isdigit(static_cast<unsigned char>(operand[0])) != 0;
}

int bits_of(const std::string& type) {
  if (type == "pred") return 1;
  if (type.ends_with("x2")) return 32;
  return std::stoi(type.substr(type.find_first_of("123456789")));
}

/// The width of the register: there are none of 8 bits.
int width_of(const std::string& type) { return std::max(16, bits_of(type)); }

/// Special bits of a type of floats: zeros, ones, the ends of exponents, halves, infinities, NaN.
std::vector<std::uint64_t> special_floats(int fraction, int exponent) {
  const std::uint64_t bias = (std::uint64_t{1} << (exponent - 1)) - 1, one = bias << fraction,
                      infinite = ((std::uint64_t{1} << exponent) - 1) << fraction,
                      unit = std::uint64_t{1} << fraction;
  std::vector<std::uint64_t> all = {0,
                                    1,
                                    unit - 1,  // the largest subnormal
                                    unit / 2,
                                    unit,  // the smallest normal
                                    unit + 1,
                                    one,
                                    one + 1,
                                    one - 1,
                                    one - unit,             // 1/2
                                    one + unit / 2,         // 3/2
                                    one + unit,             // 2
                                    one + unit + unit / 4,  // 5/2
                                    one + unit + unit / 2,  // 3
                                    infinite - 1,           // the largest
                                    infinite - unit,
                                    infinite,
                                    infinite + 1,  // a signalling NaN
                                    infinite + unit / 2};
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(all[i] | std::uint64_t{1} << (fraction + exponent));
  return all;
}

}  // namespace

std::uint64_t draw(const std::string& type, Random32& random, int index) {
  const std::uint64_t bits = std::uint64_t{random.next()} << 32 | random.next();
  const bool special = random.next() % 5 < 3;
  const bool near = random.next() % 2 == 0;  // of the size that kernels have
  if (type == "pred") return bits & 1;
  if (type == "oob16") return near ? 0x7ff7 : 0x3c00 | (bits & 0x83ff);  // what no tensor had
  const int width = bits_of(type);
  if (type.ends_with("x2")) {
    const std::string half = type.substr(0, type.size() - 2);
    const std::uint64_t low = draw(half, random, index);
    return low | draw(half, random, index + 1) << 16;
  }
  const auto floats = [&](int fraction, int exponent) -> std::uint64_t {
    const auto all = special_floats(fraction, exponent);
    if (special) return all[bits % all.size()];
    if (!near) return bits;
    const std::uint64_t bias = (std::uint64_t{1} << (exponent - 1)) - 1;
    const std::uint64_t spread = std::min<std::uint64_t>(bias - 1, 40);
    const std::uint64_t its = bias - spread + (bits >> 53) % (2 * spread);
    return (bits & ((std::uint64_t{1} << fraction) - 1)) | its << fraction |
           (bits >> 63) << (fraction + exponent);
  };
  if (type == "f32") return floats(23, 8) & 0xffffffff;
  if (type == "f64") return floats(52, 11);
  if (type == "f16") return floats(10, 5) & 0xffff;
  if (type == "bf16") return floats(7, 8) & 0xffff;
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const std::uint64_t top = std::uint64_t{1} << (width - 1);
  const std::uint64_t specials[] = {0,        1,  2,  3,  top, top - 1, top + 1, mask,
                                    mask - 1, 31, 32, 33, 63,  64,      65};
  if (special) return specials[bits % std::size(specials)] & mask;
  return (near ? bits >> (bits % 61) : bits) & mask;
}

std::uint64_t seed_of(const std::string& name) {
  std::uint64_t seed = 1469598103934665603u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return seed;
}

namespace {

std::string reg(const std::string& type, std::size_t index) {
  if (type == "pred") return "%p" + std::to_string(index);
  return "%w" + std::to_string(width_of(type)) + "_" + std::to_string(index);
}

}  // namespace

std::string Spelling::name() const {
  std::string text = opcode + " " + result + " =";
  for (const std::string& operand : operands) text += " " + operand;
  return text;
}

std::vector<Spelling> spellings() {
  std::vector<Spelling> all;
  for (const char* form : forms) {
    const Words words = split(form, ' ');
    for (const std::string& opcode : expand(words[0])) {
      const Words parts = split(opcode, '.');
      const auto type_of = [&](const std::string& word) {
        if (word == "T" || word == "S") return parts.back();
        if (word == "D" || word == "b") return parts[parts.size() - 2];
        return word;
      };
      Spelling spelling{opcode, type_of(words[1]), {}};
      for (std::size_t i = 2; i < words.size(); ++i) spelling.operands.push_back(type_of(words[i]));
      all.push_back(spelling);
    }
  }
  return all;
}

int result_bytes(const Spelling& spelling) {
  return spelling.result == "pred" ? 1 : width_of(spelling.result) / 8;
}

std::vector<std::vector<std::uint64_t>> inputs_of(const Spelling& spelling) {
  Random32 random{seed_of(spelling.name())};
  std::vector<std::vector<std::uint64_t>> inputs;
  for (const std::string& type : spelling.operands) {
    std::vector<std::uint64_t> values;
    for (int i = 0; i < tries; ++i) {
      values.push_back(is_number(type) ? 0 : draw(type, random, i));
    }
    inputs.push_back(values);
  }
  return inputs;
}

bool is_defined(const Spelling& spelling, const std::vector<std::vector<std::uint64_t>>& inputs,
                std::size_t index) {
  return spelling.opcode != "fns.b32" || inputs[1][index] < 32;
}

std::string kernel_of(const Spelling& spelling, const std::string& name) {
  std::string text = ".visible .entry " + name +
                     "(.param .u64 p0, .param .u64 p1) {\n"
                     ".reg .pred %p<8>; .reg .b16 %w16_<8>; .reg .b32 %w32_<8>; .reg .b64 "
                     "%w64_<8>; .reg .b32 %i; .reg .b64 %a, %b, %o, %x;\n"
                     "mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 8; ld.param.u64 %a, [p0]; "
                     "ld.param.u64 %b, [p1]; add.s64 %a, %a, %o; add.s64 %b, %b, %o;\n";
  std::string arguments;
  for (std::size_t i = 0; i < spelling.operands.size(); ++i) {
    const std::string& type = spelling.operands[i];
    if (is_number(type)) {
      arguments += ", " + type;
      continue;
    }
    const std::string its = reg(type, i + 1);
    arguments += ", " + its;
    text += "ld.global.b64 %x, [%a+" + std::to_string(8 * tries * static_cast<int>(i)) + "]; ";
    if (type == "pred") {
      text += "setp.ne.s64 " + its + ", %x, 0;\n";
    } else {
      const int width = width_of(type);
      text += width == 64 ? "mov.b64 " + its + ", %x;\n"
                          : "cvt.u" + std::to_string(width) + ".u64 " + its + ", %x;\n";
    }
  }
  const std::string d = reg(spelling.result, 0);
  text += spelling.opcode + " " + d + arguments + ";\n";
  if (spelling.result == "pred") {
    text += "selp.u64 %x, 1, 0, " + d + ";\n";
  } else if (width_of(spelling.result) == 64) {
    text += "mov.b64 %x, " + d + ";\n";
  } else {
    text += "cvt.u64.u" + std::to_string(width_of(spelling.result)) + " %x, " + d + ";\n";
  }
  return text + "st.global.b64 [%b], %x;\nret;\n}\n";
}

}  // namespace lanescope::ptx_conformance
