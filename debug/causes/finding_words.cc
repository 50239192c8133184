#include "debug/causes/memory_findings.h"

namespace lanescope {

using simt::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::none:
      break;
    case Kind::race:
    case Kind::race_with_read:
      return "race";
    case Kind::missing_wait:
      return "missing wait";
    case Kind::copies_overlap:
      return "overlapping copies";
    case Kind::uninitialised_read:
      return "uninitialised read";
    case Kind::uninitialised_register:
      return "uninitialised register";
    case Kind::out_of_bounds:
      return "out of bounds";
    case Kind::map_disagrees:
      return "tensor map disagrees";
    case Kind::beyond_array:
      return "beyond an array";
    case Kind::misaligned:
      return "misaligned";
    case Kind::write_to_input:
      return "write to an input";
    case Kind::written_twice:
      return "written twice";
    case Kind::never_written:
      return "never written";
    case Kind::wrong_phase:
      return "wrong phase";
    case Kind::missing_proxy_fence:
      return "missing proxy fence";
    case Kind::operand_overwritten:
      return "operand overwritten";
    case Kind::register_in_flight:
      return "register in flight";
    case Kind::missing_register_fence:
      return "missing register fence";
    case Kind::late_register_access:
      return "register accessed late";
    case Kind::unfenced_read:
      return "unfenced read";
    case Kind::layout_disagrees:
      return "layout disagrees";
    case Kind::fits_k_major:
    case Kind::fits_mn_major:
      return "wrong major-ness";
    case Kind::wrong_start:
      return "wrong start";
    case Kind::parts_differ:
      return "parts differ";
    case Kind::rank_in_descriptor:
      return "rank in a descriptor";
    case Kind::wrong_expect_tx:
      return "wrong expect tx";
    case Kind::unfenced_barrier:
      return "unfenced barrier";
    case Kind::barrier_overwritten:
      return "barrier overwritten";
    case Kind::unfinished_copy:
      return "unfinished copy";
    case Kind::double_arrival:
      return "double arrival";
    case Kind::overtaken_wait:
      return "overtaken wait";
    case Kind::missing_map_fence:
      return "missing tensor map fence";
    case Kind::absent_lane:
      return "absent lane";
    case Kind::missing_grid_wait:
      return "missing grid wait";
  }
  return "";
}

const char* explanation_of(const simt::Finding& f) {
  switch (f.kind) {
    case Kind::race:
    case Kind::race_with_read:
      if (f.access.write && f.earlier.write && f.access.block != f.earlier.block) {
        return "two blocks store to one place, and nothing orders blocks: their indices collide, "
               "or an atomic is missing";
      }
      if (f.access.place == f.earlier.place) {
        return "one store has two lanes at one place: their indices collide, or no barrier stands "
               "between two turns of it";
      }
      return is_within_warp(f) ? "two lanes of a warp, and no __syncwarp() orders them: right only "
                                 "while they run in step"
                               : "no barrier orders the two accesses";
    case Kind::missing_wait:
      return "an async copy into these bytes may still be under way: its wait is missing or too "
             "weak";
    case Kind::copies_overlap:
      return "two async copies that nothing orders bring different parts to these bytes: their "
             "places in shared memory overlap";
    case Kind::wrong_phase:
      return f.earlier.place == 0
                 ? "nobody wrote these bytes yet: the wait before passed by the parity of a phase "
                   "that was over already, and waited for nothing"
                 : "an async copy into these bytes may still be under way: the wait before passed "
                   "by the parity of a phase that was over already, and waited for nothing";
    case Kind::uninitialised_read:
      return f.region == simt::shared_region ? "nobody wrote these bytes in this block"
                                             : "nobody wrote these bytes before";
    case Kind::uninitialised_register:
      return "a value that was never assigned is used";
    case Kind::out_of_bounds:
      return "the address lies outside of every buffer";
    case Kind::map_disagrees:
      return "the tensor map counts rows and heads that are not the tensor's: one head is read for "
             "another, and beyond the end";
    case Kind::beyond_array:
      return "the index is not one of the array, of registers or in memory: on a GPU it is any "
             "other's element, or none";
    case Kind::misaligned:
      return "the address is no multiple of the access's size";
    case Kind::write_to_input:
      return "the kernel may only read here";
    case Kind::written_twice:
      return "an element of the output is written once";
    case Kind::never_written:
      return "elements of the output keep what was there before";
    case Kind::missing_proxy_fence:
      return "a lane wrote these bytes, and no fence.proxy.async stands between that and the "
             "asynchronous copy or wgmma";
    case Kind::operand_overwritten:
      return "a wgmma or copy that reads these bytes may still be under way: nothing that waits "
             "for it orders this write behind it";
    case Kind::register_in_flight:
      return "the register belongs to a wgmma that no wgmma.wait_group covers yet";
    case Kind::missing_register_fence:
      return "no wgmma.fence stands between the access to the register and the wgmma that uses it";
    case Kind::unfenced_read:
      return "a copy overwrites what lanes have read, and no fence.proxy.async stands between: as "
             "ptxas orders instructions, a load may still be under way when its lane arrives";
    case Kind::late_register_access:
      return "a register is accessed between the wgmma.fence and the wgmma that uses it: undefined "
             "in PTX, but ptxas puts another fence behind the access (its note C7519)";
    case Kind::layout_disagrees:
      return "the matrix descriptor reads the tile in another layout (swizzle, leading or stride "
             "offset, box) than the tensor map stored it in";
    case Kind::fits_k_major:
      return "the operand is taken MN-major, and its start address advances as of one that is "
             "K-major: one of the two is wrong";
    case Kind::fits_mn_major:
      return "the operand is taken K-major, and its start address advances as of one that is "
             "MN-major: one of the two is wrong";
    case Kind::wrong_start:
      return "the matrix descriptor has the layout that the tensor map stored the tile in, but "
             "starts at a place from which the operand does not go on: its start address is wrong";
    case Kind::rank_in_descriptor:
      return "in a cluster the shared addresses of a block have its rank above 24 bits: the start "
             "address in a matrix descriptor is not cut to its 18 (& 0x3FFFF, then >> 4), and the "
             "rank goes into the leading offset";
    case Kind::parts_differ:
      return "the operand is put together of copies that are no neighbours in the tensor: one of "
             "them brought rows or columns of another place, or its tile's was not copied";
    case Kind::wrong_expect_tx:
      return "expect_tx does not say what this copy and the others of its phase bring: the phase "
             "completes before they have come, or never";
    case Kind::unfenced_barrier:
      return "a copy completes on this mbarrier, and no fence.mbarrier_init follows its "
             "initialisation";
    case Kind::barrier_overwritten:
      return "these bytes are an mbarrier in use";
    case Kind::unfinished_copy:
      return "the block ends while this copy is under way";
    case Kind::double_arrival:
      return "a thread arrived twice in a phase of an mbarrier, so that it completed without "
             "another one";
    case Kind::overtaken_wait:
      return "the next phase of the mbarrier may complete before this wait has seen its own: a "
             "warp "
             "that is slow then waits for a phase that may never come. Who lets the next phase "
             "begin does not wait for all who wait here";
    case Kind::missing_map_fence:
      return "the kernel made this tensor map, and between that and the copy a "
             "fence.proxy.tensormap is missing: a release behind the one, an acquire of the map "
             "before the other";
    case Kind::absent_lane:
      return "the shuffle reads a lane that has exited or is not in its mask, which gives any "
             "value, "
             "and that is used";
    case Kind::missing_grid_wait:
      return "the grid before in the stream let this one start early, and may still use these "
             "bytes: no griddepcontrol.wait (cudaGridDependencySynchronize) stands before the "
             "access";
    case Kind::none:
      break;
  }
  return "";
}

}  // namespace lanescope
