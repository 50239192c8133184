// The instructions of PTX ISA 9.0: which run on the machine, and which it refuses before anything
// runs, with the line and why. What each of them does is tried elsewhere; here, that none is
// forgotten.

#include <string>

#include "reference/error.h"
#include "tests/support/catch.h"
#include "tests/support/ptx_kernel.h"

using namespace lanescope;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string registers =
    ".shared .align 16 .b8 sh[64]; .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 "
    "%d<16>; .reg .b128 %q<4>;\nBEGIN: ";

/// One form of every instruction that runs.
const char* const executed[] = {
    // Integers.
    "add.s32 %r0, %r1, %r2", "sub.s32 %r0, %r1, %r2", "mul.lo.s32 %r0, %r1, %r2",
    "mad.lo.s32 %r0, %r1, %r2, %r3", "mul24.lo.u32 %r0, %r1, %r2",
    "mad24.lo.u32 %r0, %r1, %r2, %r3", "sad.u32 %r0, %r1, %r2, %r3", "div.s32 %r0, %r1, %r2",
    "rem.s32 %r0, %r1, %r2", "abs.s32 %r0, %r1", "neg.s32 %r0, %r1", "min.s32 %r0, %r1, %r2",
    "max.s32 %r0, %r1, %r2", "popc.b32 %r0, %r1", "clz.b32 %r0, %r1", "bfind.u32 %r0, %r1",
    "fns.b32 %r0, %r1, %r2, %r3", "brev.b32 %r0, %r1", "bfe.u32 %r0, %r1, %r2, %r3",
    "bfi.b32 %r0, %r1, %r2, %r3, %r4", "bmsk.wrap.b32 %r0, %r1, %r2",
    "szext.wrap.s32 %r0, %r1, %r2", "dp4a.u32.u32 %r0, %r1, %r2, %r3",
    "dp2a.lo.u32.u32 %r0, %r1, %r2, %r3", "add.cc.u32 %r0, %r1, %r2", "addc.u32 %r0, %r1, %r2",
    "sub.cc.u32 %r0, %r1, %r2", "subc.u32 %r0, %r1, %r2", "mad.lo.cc.u32 %r0, %r1, %r2, %r3",
    "madc.hi.u32 %r0, %r1, %r2, %r3",
    // Bytes and halves.
    "vadd2.u32.u32.u32.sat %r0.h1, %r1.h30, %r2, %r3", "vsub2.s32.s32.s32 %r0, %r1, %r2, %r3",
    "vavrg2.s32.s32.s32.add %r0, %r1, %r2, %r3", "vabsdiff2.u32.u32.u32 %r0, %r1, %r2, %r3",
    "vmin2.s32.s32.s32 %r0, %r1, %r2, %r3", "vmax2.s32.s32.s32 %r0, %r1, %r2, %r3",
    "vset2.u32.u32.ge %r0, %r1, %r2, %r3", "vadd4.u32.u32.u32 %r0, %r1, %r2, %r3",
    "vsub4.s32.u32.s32.sat %r0.b20, %r1.b7210, %r2, %r3", "vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3",
    "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3", "vmin4.s32.s32.s32 %r0, %r1, %r2, %r3",
    "vmax4.s32.s32.s32 %r0, %r1, %r2, %r3", "vset4.s32.s32.ne.add %r0, %r1, %r2, %r3",
    // Floats.
    "testp.finite.f32 %p0, %r1", "copysign.f32 %r0, %r1, %r2", "fma.rn.f32 %r0, %r1, %r2, %r3",
    "rcp.approx.f32 %r0, %r1", "sqrt.rn.f64 %d0, %d1", "rsqrt.approx.f32 %r0, %r1",
    "sin.approx.f32 %r0, %r1", "cos.approx.f32 %r0, %r1", "lg2.approx.f32 %r0, %r1",
    "ex2.approx.f32 %r0, %r1", "tanh.approx.f32 %r0, %r1", "rcp.approx.ftz.f64 %d0, %d1",
    "rsqrt.approx.f64 %d0, %d1", "rsqrt.approx.ftz.f64 %d0, %d1",
    // Comparison, logic, shifts.
    "set.lt.u32.f32 %r0, %r1, %r2", "setp.lt.f32 %p0|%p1, %r1, %r2",
    "setp.lt.f16x2 %p0|%p1, %r1, %r2", "selp.b32 %r0, %r1, %r2, %p0",
    "slct.b32.s32 %r0, %r1, %r2, %r3", "and.b32 %r0, %r1, %r2", "or.b32 %r0, %r1, %r2",
    "xor.b32 %r0, %r1, %r2", "not.b32 %r0, %r1", "cnot.b32 %r0, %r1",
    "lop3.b32 %r0, %r1, %r2, %r3, 0x96", "lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x96, %p1",
    "shf.l.wrap.b32 %r0, %r1, %r2, %r3", "shl.b32 %r0, %r1, %r2", "shr.u32 %r0, %r1, %r2",
    // Moves.
    "mov.b32 %r0, %r1", "shfl.sync.idx.b32 %r0, %r1, %r2, 31, -1", "prmt.b32 %r0, %r1, %r2, %r3",
    "ld.global.b32 %r0, [%d0]", "ld.global.nc.b32 %r0, [%d0]", "ldu.global.b32 %r0, [%d0]",
    "st.global.b32 [%d0], %r0",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r0], %r1, [%r2]",
    "ld.global.b128 %q0, [%d0]", "st.shared.b128 [sh], %q3", "mov.b128 %q0, {%d0, %d1}",
    "mov.b128 {%d0, %d1}, %q0", "mov.b128 %q1, %q0", "prefetch.global.L2 [%d0]",
    "prefetchu.L1 [%d0]", "applypriority.global.L2::evict_normal [%d0], 128",
    "discard.global.L2 [%d0], 128", "createpolicy.fractional.L2::evict_last.b64 %d0, 1.0",
    "isspacep.shared %p0, %d0", "cvta.to.global.u64 %d0, %d1", "cvt.rn.f32.s32 %r0, %r1",
    "cvt.pack.sat.s16.s32 %r0, %r1, %r2", "mapa.shared::cluster.u32 %r0, %r1, %r2",
    "getctarank.shared::cluster.u32 %r0, %r1", "cp.async.ca.shared.global [%r0], [%d0], 16",
    "cp.async.commit_group", "cp.async.wait_group 0", "cp.async.wait_all",
    "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r0], %r1",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r0], %r1",
    "cp.async.bulk.prefetch.L2.global [%d0], %r1",
    "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%d0, {%r1}], [%r0]",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d0, {%r1}], [%r0]",
    "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%d0, {%r1}]", "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group 0", "tensormap.replace.tile.rank.global.b1024.b32 [%d0], %r0",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], "
    "[%r0], 128",
    // Control.
    "bra BEGIN", "ret", "exit",
    // Together.
    "bar.sync 0", "barrier.sync 0", "bar.warp.sync -1", "barrier.cluster.arrive", "membar.gl",
    "fence.acq_rel.gpu", "fence.proxy.async", "atom.global.add.u32 %r0, [%d0], %r1",
    "red.global.add.u32 [%d0], %r1",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, "
    "[%r2]",
    "vote.sync.ballot.b32 %r0, %p0, -1", "match.any.sync.b32 %r0, %r1, -1", "activemask.b32 %r0",
    "redux.sync.add.u32 %r0, %r1, -1", "griddepcontrol.wait", "elect.sync %r0|%p0, -1",
    "mbarrier.init.shared.b64 [%r0], 1", "mbarrier.inval.shared.b64 [%r0]",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 16",
    "mbarrier.arrive.shared.b64 %d0, [%r0]", "mbarrier.try_wait.parity.shared.b64 %p0, [%r0], 0",
    "mbarrier.test_wait.parity.shared.b64 %p0, [%r0], 0",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r0]",
    // Matrices.
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5}",
    "wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r0}, [%d0], 32",
    "wmma.store.d.sync.aligned.row.m8n8k32.global.s32 [%d0], {%r0, %r1}, 8",
    "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5}",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1]",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r0}",
    "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1", "wgmma.fence.sync.aligned",
    "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned 0",
    // Others.
    "brkpt", "nanosleep.u32 %r0", "pmevent 1", "trap", "setmaxnreg.inc.sync.aligned.u32 64"};

struct Refused {
  const char* text;
  const char* why;
};
const Refused refused[] = {
    {"tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%d0, {%r4}]", "textures"},
    {"suld.b.1d.b32.trap %r0, [%d0, {%r1}]", "textures"},
    {"txq.width.b32 %r0, [%d0]", "textures"},
    {"istypep.texref %p0, %d0", "textures"},
    {"multimem.red.global.add.u32 [%d0], %r0", "several GPUs"},
    {"alloca.u32 %r0, %r1", "a stack"},
    {"stacksave.u32 %r0", "a stack"},
    {"stackrestore.u32 %r0", "a stack"},
    {"tcgen05.wait::ld.sync.aligned", "no GPU before sm_100"},
    {"clusterlaunchcontrol.is_canceled.pred.b128 %p0, %d0", "no GPU before sm_100"},
    {"cvt.rs.f16x2.f32 %r0, %r1, %r2, %r3", "no GPU before sm_100"},
    {"max.f32 %r0, %r1, %r2, %r3", "no GPU before sm_100"},
    {"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 {%r0}, {%r0}, {%r0}, {%r0}",
     "no GPU before sm_100"},
    {"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0}, %r1, 0",
     "sparse matrices"},
    {"vmad.u32.u32.u32 %r0, %r1, %r2, %r3", "scalar video instructions"},
    {"vset.u32.u32.lt %r0, %r1, %r2", "scalar video instructions"},
    {"frobnicate.b32 %r0, %r1", "does not know"}};

}  // namespace

TEST_CASE("ptx instructions: one form of each runs, or is refused with its line", "[ptx]") {
  for (const char* instruction : executed) {
    INFO(instruction);
    CHECK_NOTHROW(PtxKernel(ptx_module(registers + instruction + ";\nret;")));
  }
  for (const Refused& its : refused) {
    INFO(its.text);
    CHECK_THROWS_WITH(PtxKernel(ptx_module(registers + its.text + ";\nret;")),
                      ContainsSubstring("test.ptx:6: ") && ContainsSubstring(its.why));
  }
}

TEST_CASE("ptx instructions: carries, predicates of tables, transposed matrices", "[ptx]") {
  // Each lane: a product of 64 by 64 bits of words and carries; whether a table gives any bit;
  // element (row, column) of 8 by 8 halves is 8·row + column.
  PtxKernel kernel(ptx_module(
      ".reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %d<8>; ld.param.u64 %d0, [p0];\n"
      "mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 32; add.s64 %d0, %d0, %d1;\n"
      "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];\n"  // a, b
      "mul.lo.u32 %r10, %r1, %r3; mul.hi.u32 %r11, %r1, %r3;\n"
      "mad.lo.cc.u32 %r11, %r1, %r4, %r11; madc.hi.u32 %r12, %r1, %r4, 0;\n"
      "mad.lo.cc.u32 %r11, %r2, %r3, %r11; madc.hi.cc.u32 %r12, %r2, %r3, %r12; addc.u32 %r13, 0, "
      "0;\nmad.lo.cc.u32 %r12, %r2, %r4, %r12; madc.hi.u32 %r13, %r2, %r4, %r13;\n"
      "st.global.v4.u32 [%d0], {%r10, %r11, %r12, %r13};\n"
      "and.b32 %r20, %r0, 1; setp.ne.u32 %p1, %r20, 0; and.b32 %r21, %r0, 2;\n"
      "lop3.and.b32 %r22|%p0, %r21, 0, 0, 0xf0, %p1; selp.u32 %r22, 1, 0, %p0;\n"
      "lop3.or.b32 %r23|%p0, %r21, 0, 0, 0xf0, %p1; selp.u32 %r23, 1, 0, %p0;\n"
      "shl.b32 %r24, %r0, 1; add.u32 %r25, %r24, 1; shl.b32 %r25, %r25, 16; or.b32 %r24, %r24, "
      "%r25;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r26, %r24;\n"
      "st.global.v4.u32 [%d0+16], {%r22, %r23, %r26, %r26};\nret;",
      1));
  struct alignas(32) Row {
    std::uint64_t a, b;
    std::uint32_t both, either, transposed, again;
  };
  __extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using)
  std::vector<Row> rows(32);
  for (std::size_t i = 0; i < 32; ++i) {
    rows[i] = {~std::uint64_t{0} - i * 0x0123456789abcdefu,
               i % 3 == 0 ? ~std::uint64_t{0} : i << 33 | 0xfffffff1u,
               0,
               0,
               0,
               0};
  }
  const std::vector<Row> before = rows;
  kernel.use(rows);
  kernel.run({address(rows.data())});
  for (std::size_t i = 0; i < 32; ++i) {
    INFO("lane " << i);
    const Wide product = Wide{before[i].a} * before[i].b;
    CHECK(rows[i].a == static_cast<std::uint64_t>(product));
    CHECK(rows[i].b == static_cast<std::uint64_t>(product >> 64));
    CHECK(rows[i].both == ((i & 1) != 0 && (i & 2) != 0 ? 1 : 0));
    CHECK(rows[i].either == ((i & 1) != 0 || (i & 2) != 0 ? 1 : 0));
    // Column i / 4, rows 2 · (i % 4) and the next.
    const std::size_t low = i % 4 * 2 * 8 + i / 4;
    CHECK(rows[i].transposed == (low | (low + 8) << 16));
  }
}
