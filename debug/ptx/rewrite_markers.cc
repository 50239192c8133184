#include "debug/ptx/rewrite_markers.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <vector>

#include "debug/ptx/contraction.h"
#include "debug/ptx/control_flow.h"
#include "debug/ptx/decoder.h"
#include "debug/ptx/marker.h"
#include "debug/text/text.h"
#include "reference/error.h"

namespace lanescope::ptx {
namespace {

/// An operand as PTX has it: a register or a number.
std::string text_of(const Operand& operand) {
  char text[32];
  switch (operand.kind) {
    case Operand::Kind::reg:
      return std::string(operand.name);
    case Operand::Kind::integer:
      return std::to_string(static_cast<std::int64_t>(operand.bits));
    case Operand::Kind::real32:
      std::snprintf(text, sizeof text, "0f%08llX", static_cast<unsigned long long>(operand.bits));
      return text;
    case Operand::Kind::real64:
      std::snprintf(text, sizeof text, "0d%016llX", static_cast<unsigned long long>(operand.bits));
      return text;
    default:
      return {};
  }
}

class Rewriter {
 public:
  Rewriter(const Module& module, const MarkerRun& run, const MarkerBuffers& buffers)
      : module_(module), run_(run), buffers_(buffers) {
    std::string_view text = *module.text;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1);
      lines_.emplace_back(text.substr(0, end + 1));
      text.remove_prefix(end + 1);
    }
  }

  std::string rewrite() {
    for (const Function& function : module_.functions) {
      if (function.has_body) rewrite_function(function);
    }
    const auto directive = std::find_if(lines_.begin(), lines_.end(), [](const std::string& line) {
      return line.find(".address_size") != line.npos;
    });
    if (directive == lines_.end()) throw UsageError(module_.name + " has no .address_size");
    *directive += std::string(".visible .global .align 8 .b64 ") + marker_buffers_name + "[4];\n";
    std::string text;
    for (const std::string& line : lines_) text += line;
    return text;
  }

 private:
  [[noreturn]] void fail(std::uint32_t line, const std::string& what) const {
    throw UsageError(module_.name + ":" + std::to_string(line) + ": " + what +
                     ": it cannot be rewritten for a GPU");
  }
  std::string& line(std::uint32_t number) { return lines_[number - 1]; }

  void rewrite_function(const Function& function) {
    demand_no_products_in_flight(module_, function);
    std::map<std::uint32_t, Contraction> contractions;
    if (module_.contracts) contractions = find_contractions(function, run_.injects);
    bool marks = false;
    for (std::uint32_t i = 0; i < function.statements.size(); ++i) {
      const Statement& statement = function.statements[i];
      const auto sum = contractions.find(i);
      if (is_marker(statement)) {
        marks = true;
        rewrite_marker(statement);
      } else if (sum != contractions.end()) {
        contract(statement, function.statements[sum->second.product], sum->second);
      } else {
        keep_apart(statement);
      }
    }
    if (!marks) return;
    if (!function.is_entry) {
      fail(function.line,
           "the function " + printable(function.name, 120) +
               " has markers and is no kernel (__forceinline__ makes it part of one)");
    }
    begin_kernel(function);
  }

  /// Which row tile it computes, as long as no marker says so, and which thread it is.
  void begin_kernel(const Function& function) {
    std::uint32_t number = function.line;
    while (number <= lines_.size() && line(number).find('{') == std::string::npos) ++number;
    if (number > lines_.size()) fail(function.line, "its body is not found");
    const std::size_t at = line(number).find('{') + 1;
    line(number).insert(at, R"(
.reg .b32 %ls_block; .reg .b16 %ls_thread;
{ .reg .b32 %ls_a, %ls_b, %ls_c;
mov.u32 %ls_a, %nctaid.y; mov.u32 %ls_b, %ctaid.z; mul.lo.u32 %ls_block, %ls_a, %ls_b;
mov.u32 %ls_a, %ctaid.y; add.u32 %ls_block, %ls_block, %ls_a;
mov.u32 %ls_a, %nctaid.x; mov.u32 %ls_b, %ctaid.x; mad.lo.u32 %ls_block, %ls_block, %ls_a, %ls_b;
mov.u32 %ls_a, %ntid.y; mov.u32 %ls_b, %tid.z; mul.lo.u32 %ls_c, %ls_a, %ls_b;
mov.u32 %ls_a, %tid.y; add.u32 %ls_c, %ls_c, %ls_a;
mov.u32 %ls_a, %ntid.x; mov.u32 %ls_b, %tid.x; mad.lo.u32 %ls_c, %ls_c, %ls_a, %ls_b;
cvt.u16.u32 %ls_thread, %ls_c; }
)");
  }

  void rewrite_marker(const Statement& statement) {
    std::string_view words = statement.opcode;
    const Marker marker = *take_marker(words);
    std::string code;
    std::vector<std::string> operands;
    for (const Operand& operand : statement.operands) operands.push_back(text_of(operand));
    if (marker.kind == Marker::Kind::phase) {
      // It says something of the code alone.
    } else if (marker.kind == Marker::Kind::row_tile) {
      code = "{ .reg .b32 %ls_a; mad.lo.s32 %ls_a, " + operands[0] + ", " + number(run_.heads) +
             ", " + operands[1] + "; mad.lo.s32 %ls_block, %ls_a, " + number(run_.q_tiles) + ", " +
             operands[2] + "; }\n";
    } else {
      const MarkerRun::OfSite& site = run_.sites[static_cast<std::size_t>(marker.site)];
      const MarkedSlots& slots = shows(marker) ? site.shown : site.given;
      if (slots.base && has_value(marker)) code = access(marker, slots, site.holders, operands);
      if (slots.base && marker.kind == Marker::Kind::tile) code = show_tile(slots, operands);
    }
    std::string& at = line(statement.line);
    const std::size_t comment = at.find("//");
    at = at.substr(0, comment) + code + "\n";
  }

  /// Stores or loads the value, `operands` tile, row, column and value.
  std::string access(const Marker& marker, const MarkedSlots& slots, const std::int16_t* holders,
                     const std::vector<std::string>& operands) {
    const bool packed = marker.form == Marker::Form::b16x2;
    const bool traces = marker.kind == Marker::Kind::trace;
    const std::string& value = operands[3];
    std::string code =
        "{ .reg .pred %ls_p; .reg .b16 %ls_h<2>; .reg .b32 %ls_a, %ls_b, %ls_c, %ls_i; "
        ".reg .b64 %ls_x, %ls_y;\n";
    if (packed) code += "mov.b32 {%ls_h0, %ls_h1}, " + value + ";\n";
    for (int i = 0; i < (packed ? 2 : 1); ++i) {
      const std::string held = packed ? "%ls_h" + std::to_string(i) : value;
      const std::string type = slots.element == 2 ? "b16" : "b32";
      code += find_slot(slots, operands, i);
      if (!traces) {
        code += "@%ls_p ld.global." + type + " " + held + ", [%ls_x];\n";
        continue;
      }
      code += "@%ls_p st.global." + type + " [%ls_x], " + held + ";\n";
      code += buffer_address(reinterpret_cast<const std::byte*>(holders));
      code += "mad.wide.u32 %ls_x, %ls_i, 2, %ls_y; @%ls_p st.global.u16 [%ls_x], %ls_thread;\n";
    }
    if (packed && !traces) code += "mov.b32 " + value + ", {%ls_h0, %ls_h1};\n";
    return code + "}\n";
  }

  /// Copies a tile from shared memory, `operands` those of its marker: the lanes that come here
  /// together share its elements. TileLayout::offset.
  std::string show_tile(const MarkedSlots& slots, const std::vector<std::string>& operands) {
    const std::string type = slots.element == 2 ? "b16" : "b32";
    const std::string &address = operands[1], &row = operands[2], &col = operands[3],
                      &panel = operands[4], &panel_stride = operands[5], &swizzle = operands[6];
    std::string code =
        "{ .reg .pred %ls_p; .reg ." + type +
        " %ls_v; .reg .b32 %ls_a, %ls_b, %ls_c, %ls_i, %ls_e, %ls_n, %ls_r, %ls_k, %ls_w, %ls_m; "
        ".reg .b64 %ls_x, %ls_y;\n"
        "activemask.b32 %ls_m; popc.b32 %ls_n, %ls_m; mov.u32 %ls_e, %lanemask_lt; "
        "and.b32 %ls_e, %ls_e, %ls_m; popc.b32 %ls_e, %ls_e;\n"
        "mov.u32 %ls_w, " +
        panel +
        "; setp.gt.s32 %ls_p, %ls_w, 0; "
        "selp.b32 %ls_w, %ls_w, 0x7fffffff, %ls_p;\n"
        "LS_NEXT: setp.lt.u32 %ls_p, %ls_e, " +
        number(slots.rows * std::int64_t{slots.cols}) +
        "; @!%ls_p bra LS_DONE;\n"
        "div.u32 %ls_r, %ls_e, " +
        number(slots.cols) + "; rem.u32 %ls_k, %ls_e, " + number(slots.cols) +
        ";\n"
        "div.u32 %ls_a, %ls_k, %ls_w; rem.u32 %ls_b, %ls_k, %ls_w; mul.lo.s32 %ls_b, %ls_b, " +
        col + "; mad.lo.s32 %ls_b, %ls_a, " + panel_stride + ", %ls_b; mad.lo.s32 %ls_b, %ls_r, " +
        row + ", %ls_b;\n";
    // The element's number is in %ls_b: its bits from base + shift on go into those from base on.
    code += "bfe.u32 %ls_a, " + swizzle + ", 16, 4; shr.s32 %ls_i, %ls_b, %ls_a; bfe.u32 %ls_a, " +
            swizzle +
            ", 0, 4; mov.u32 %ls_c, 1; shl.b32 %ls_c, %ls_c, %ls_a; "
            "sub.s32 %ls_c, %ls_c, 1; bfe.u32 %ls_a, " +
            swizzle +
            ", 8, 4; shl.b32 %ls_c, %ls_c, %ls_a; and.b32 %ls_i, %ls_i, %ls_c; "
            "xor.b32 %ls_b, %ls_b, %ls_i;\n";
    code += "mad.lo.s32 %ls_a, %ls_b, " + number(slots.element) + ", " + address + "; ld.shared." +
            type + " %ls_v, [%ls_a];\n";
    code += find_slot(slots, {operands[0], "%ls_r", "%ls_k"}, 0);
    return code + "@%ls_p st.global." + type +
           " [%ls_x], %ls_v;\nadd.u32 %ls_e, %ls_e, %ls_n; bra LS_NEXT;\nLS_DONE:\n}\n";
  }

  static std::string number(std::int64_t n) { return std::to_string(n); }

  /// Where the device has a byte of the buffers: in %ls_y.
  std::string buffer_address(const std::byte* at) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const MarkerBuffer& buffer = buffers_[i];
      if (!buffer.begin || at < buffer.begin || at >= buffer.begin + buffer.bytes) continue;
      return std::string("ld.global.u64 %ls_y, [") + marker_buffers_name + "+" +
             number(static_cast<std::int64_t>(8 * i)) + "]; add.s64 %ls_y, %ls_y, " +
             number(at - buffer.begin) + ";\n";
    }
    throw UsageError("the slots of a marker lie in no buffer");
  }

  /// The address of an element in %ls_x, whether there is one in %ls_p, its index in %ls_i.
  std::string find_slot(const MarkedSlots& slots, const std::vector<std::string>& operands,
                        int col) const {
    const Window& w = slots.window;
    const std::int64_t tiles = slots.per_tile ? w.tile_end - w.tile_begin : 1;
    if (tiles * slots.count() * slots.element > 0xffffffff) {
      throw UsageError("a block's slots of a site pass 4 GiB: --where narrows what is traced");
    }
    std::string code = "setp.lt.u32 %ls_p, " + operands[1] + ", " + number(slots.rows) +
                       "; add.s32 %ls_c, " + operands[2] + ", " + number(col) +
                       "; setp.lt.and.u32 %ls_p, %ls_c, " + number(slots.cols) + ", %ls_p;\n";
    code += "sub.s32 %ls_b, %ls_block, " + number(w.block_begin) +
            "; setp.lt.and.u32 %ls_p, %ls_b, " + number(w.block_end - w.block_begin) + ", %ls_p;\n";
    if (slots.per_tile) {
      code += "sub.s32 %ls_a, " + operands[0] + ", " + number(w.tile_begin) +
              "; setp.lt.and.u32 %ls_p, %ls_a, " + number(tiles) + ", %ls_p;\n";
    } else {
      code += "mov.u32 %ls_a, 0;\n";
    }
    if (slots.of_lanes) {  // MarkedSlots::index
      const int chunk = 4 * words_per_chunk(slots.rows * slots.element / 4) / slots.element;
      const std::string shift = number(std::countr_zero(static_cast<unsigned>(chunk)));
      code += "mov.u32 %ls_c, %laneid; shr.u32 %ls_i, " + operands[1] + ", " + shift +
              "; mad.lo.u32 %ls_i, %ls_i, 32, %ls_c; and.b32 %ls_c, " + operands[1] + ", " +
              number(chunk - 1) + "; mad.lo.u32 %ls_i, %ls_i, " + number(chunk) + ", %ls_c;\n";
    } else {
      code += "mad.lo.u32 %ls_i, " + operands[1] + ", " + number(slots.cols) + ", %ls_c;\n";
    }
    code += buffer_address(slots.base);
    code += "mul.wide.u32 %ls_x, %ls_b, " + number(tiles * slots.count() * slots.element) +
            "; add.s64 %ls_y, %ls_y, %ls_x; mad.wide.u32 %ls_y, %ls_a, " +
            number(slots.count() * slots.element) + ", %ls_y; mad.wide.u32 %ls_x, %ls_i, " +
            number(slots.element) + ", %ls_y;\n";
    return code;
  }

  /// What of a line stands before the one statement in it.
  std::string guard_before(const Statement& statement) {
    const std::string& at = line(statement.line);
    const std::size_t opcode = at.find(statement.opcode);
    const bool alone = std::count(at.begin(), at.end(), ';') == 1;
    if (opcode == at.npos || !alone) {
      fail(statement.line, printable(statement.opcode, 60) + " shares its line with others");
    }
    return at.substr(0, opcode);
  }

  /// A sum that ptxas contracts with its product.
  void contract(const Statement& sum, const Statement& product, const Contraction& contraction) {
    const std::string guard = guard_before(sum);
    const std::string rest(sum.opcode.substr(sum.opcode.find('.')));
    const std::string type = rest.substr(rest.rfind('.'));
    std::string a = text_of(product.operands[1]), c = text_of(sum.operands[contraction.addend]);
    std::string before;
    const auto negate = [&](std::string& operand, const char* name) {
      before += "neg" + type + " " + name + ", " + operand + "; ";
      operand = name;
    };
    if (contraction.negates_product) negate(a, "%ls_f0");
    if (contraction.negates_addend) negate(c, "%ls_f1");
    const std::string bits = type.ends_with("64")                     ? ".b64"
                             : type.ends_with("x2") || type == ".f32" ? ".b32"
                                                                      : ".b16";
    line(sum.line) = "{ .reg " + bits + " %ls_f<2>; " + before + guard + "fma.rn" + rest + " " +
                     text_of(sum.operands[0]) + ", " + a + ", " + text_of(product.operands[2]) +
                     ", " + c + "; }\n";
  }

  /// A sum or product that ptxas might contract otherwise: rounding that is written it keeps.
  void keep_apart(const Statement& statement) {
    const std::string_view base = statement.opcode.substr(0, statement.opcode.find('.'));
    if (base != "add" && base != "sub" && base != "mul") return;
    Modifiers modifiers(statement.opcode);
    modifiers.ignore({"ftz", "sat"});
    const auto type = modifiers.take_type();
    if (!type || !is_float(*type) || bits_of(*type) < 16 || !modifiers.left().empty()) return;
    const std::string guard = guard_before(statement);
    line(statement.line).insert(guard.size() + base.size(), ".rn");
  }

  const Module& module_;
  const MarkerRun& run_;
  const MarkerBuffers& buffers_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string rewrite_markers(const Module& module, const MarkerRun& run,
                            const MarkerBuffers& buffers) {
  return Rewriter(module, run, buffers).rewrite();
}

}  // namespace lanescope::ptx
