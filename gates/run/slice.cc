#include "gates/run/slice.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "debug/judge/verdicts.h"
#include "gates/process/machine_runtime.h"
#include "gates/process/shared_file.h"
#include "reference/error.h"

namespace lanescope {
namespace {

/// A value on the way that a marker names.
struct Mark {
  int site;
  std::int64_t block, tile, row, col, thread;
};

/// An input, as name_inputs says it.
struct Input {
  std::string name;
  std::uint64_t begin = 0;
  std::int64_t bytes = 0, row_bytes = 0, rows = 0, heads = 0;
};

/// "k: 64 bytes, of rows 0 to 15 of head 2"
std::string source_text(const std::vector<Input>& inputs, std::int64_t bytes, std::uint64_t first,
                        std::uint64_t last, const std::string& otherwise) {
  for (const Input& input : inputs) {
    const auto size = static_cast<std::uint64_t>(input.bytes);
    if (first - input.begin >= size || last - input.begin >= size) continue;
    const auto row_at = [&](std::uint64_t at) {
      return static_cast<std::int64_t>(at - input.begin) / input.row_bytes;
    };
    const auto place = [&](std::int64_t row) {
      const std::int64_t head = row / input.rows;
      return "row " + std::to_string(row % input.rows) + " of batch " +
             std::to_string(head / input.heads) + ", head " + std::to_string(head % input.heads);
    };
    const std::int64_t from = row_at(first), to = row_at(last);
    return "from " + std::to_string(bytes) + " bytes of " + input.name + ": " + place(from) +
           (from == to ? "" : " to " + place(to));
  }
  return otherwise;
}

/// What the run wrote into the file.
struct Told {
  OutputSlice slice;
  std::vector<Mark> marks;
};

Told read_slice(const std::string& path) {
  Told told;
  std::vector<Input> inputs;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "input") {
      Input& input = inputs.emplace_back();
      in >> input.name >> input.begin >> input.bytes >> input.row_bytes >> input.rows >>
          input.heads;
    } else if (word == "slice") {
      told = {};  // of several launches the last that wrote it
      in >> told.slice.block;
    } else if (word == "mark") {
      Mark mark{};
      in >> mark.site >> mark.block >> mark.tile >> mark.row >> mark.col >> mark.thread;
      told.marks.push_back(mark);
    } else if (word == "note") {
      told.slice.lines.push_back(line.substr(5));
    } else if (word == "from") {
      std::int64_t bytes = 0;
      std::uint64_t first = 0, last = 0;
      in >> bytes >> first >> last;
      std::string otherwise;
      std::getline(in >> std::ws, otherwise);
      told.slice.sources.push_back(source_text(inputs, bytes, first, last, otherwise));
    }
  }
  return told;
}

/// A marked value beside what it should be.
struct JudgedMark {
  bool wrong;
  Divergence at;
};

/// Nothing where the dump or the reference lacks it.
std::optional<JudgedMark> judge(const Dump& dump, const Mark& mark, const BlockWants& wants) {
  const std::string_view name = name_of(static_cast<SiteId>(mark.site));
  const DumpSite* entry = dump.find_site(name);
  if (!entry) return std::nullopt;
  const std::int64_t tile = entry->site.per_tile ? mark.tile : 0;
  const TileWant* want = wants.find(name, tile);
  if (!want) return std::nullopt;
  for (const Place& place : places_of(dump, name, mark.block, tile)) {
    if (place.row != mark.row || (place.col != mark.col && entry->site.cols > 1)) continue;
    std::int64_t thread = mark.thread;
    if (entry->site.space == Space::registers) thread = place.slot / entry->site.regs;
    if (thread != mark.thread) continue;
    const Tensor& tensor = *dump.find(name);
    const Judged judged = want->judge(tensor, place);
    if (judged.verdict == Verdict::unjudged) return std::nullopt;
    Divergence at;
    at.site = static_cast<SiteId>(mark.site);
    at.stage = entry->site.stage;
    at.judgement = want->judgement;
    at.block = mark.block;
    at.tile = tile;
    at.warp = mark.thread / 32;
    at.lane = mark.thread % 32;
    at.row = mark.row;
    at.col = mark.col;
    at.got = tensor.at(place.index);
    at.want = judged.want;
    at.bound = judged.bound;
    at.unwritten = judged.verdict == Verdict::unwritten;
    return JudgedMark{judged.verdict != Verdict::right, at};
  }
  return std::nullopt;
}

/// The first wrong element of o.
const Divergence& wrong_output(const DiffReport& report) {
  for (const SiteReport& site : report.sites) {
    if (site.site == SiteId::o_final && site.failed > 0 && site.first) return *site.first;
  }
  throw UsageError("--slice: no element of the output is wrong");
}

void judge_marks(const Dump& dump, const std::vector<Mark>& marks, OutputSlice& slice) {
  std::map<std::int64_t, BlockWants> wants;
  for (const Mark& mark : marks) {
    const auto [of_block, is_new] =
        wants.try_emplace(mark.block, dump, mark.block, [](SiteId) { return true; });
    const auto judged = judge(dump, mark, of_block->second);
    if (!judged) continue;
    ++slice.marked;
    if (judged->wrong && !slice.first_wrong) slice.first_wrong = judged->at;
  }
}

}  // namespace

OutputSlice slice_output(PreparedRun& run, const Dump& dump, const DiffReport& report) {
  if (!machine_runtime()) {
    throw UsageError(
        "--slice follows kernels that run as PTX on the SIMT machine: a .ptx, or a "
        "module of nvcc's with --backend sim");
  }
  const Divergence at = wrong_output(report);
  const Problem& p = run.request.problem;
  const std::int64_t row = (at.batch * p.heads + at.head) * p.len_q + at.query;
  const SharedFile file("slice");
  run.request.slice = SliceRequest{row * run.module->head_dim + at.col, file.number()};
  launch(*run.module, run.module_name, run.request);
  Told told = read_slice(file.path());
  told.slice.at = at;
  judge_marks(dump, told.marks, told.slice);
  return told.slice;
}

std::string slice_text(const OutputSlice& slice, const Style& style) {
  Page page(style);
  page.line("What the first wrong element of o came through, the last first", Colour::bold);
  if (slice.lines.empty()) {
    page.whole("  no block wrote it");
    return page.text();
  }
  page.field("element", "batch " + std::to_string(slice.at.batch) + ", head " +
                            std::to_string(slice.at.head) + ", query " +
                            std::to_string(slice.at.query) + ", column " +
                            std::to_string(slice.at.col) + ", by block " +
                            std::to_string(slice.block) + " of the grid");
  for (const std::string& line : slice.lines) page.whole("  " + line);
  for (const std::string& source : slice.sources) page.whole("  " + source);
  if (slice.first_wrong) {
    const Divergence& first = *slice.first_wrong;
    page.whole("  of " + std::to_string(slice.marked) +
               " marked values on the way the first wrong: " + name_of(first.site) + ", tile " +
               std::to_string(first.tile) + ", row " + std::to_string(first.row) + ", column " +
               std::to_string(first.col) + " (warp " + std::to_string(first.warp) + ", lane " +
               std::to_string(first.lane) + "): got " +
               (first.unwritten ? "nothing" : number_text(first.got, 6)) + ", want " +
               number_text(first.want, 6) + " within " + number_text(first.bound, 3));
  } else if (slice.marked > 0) {
    page.whole("  all " + std::to_string(slice.marked) +
               " marked values on the way are right: it goes wrong behind them");
  }
  return page.text();
}

Json slice_json(const OutputSlice& slice) {
  Json first;
  if (slice.first_wrong) {
    const Divergence& at = *slice.first_wrong;
    first = {{"site", name_of(at.site)},
             {"tile", at.tile},
             {"block", at.block},
             {"warp", at.warp},
             {"lane", at.lane},
             {"row", at.row},
             {"col", at.col},
             {"got", at.unwritten ? Json() : number_json(at.got)},
             {"want", number_json(at.want)},
             {"bound", number_json(at.bound)}};
  }
  return {{"batch", slice.at.batch},  {"head", slice.at.head},  {"query", slice.at.query},
          {"col", slice.at.col},      {"block", slice.block},   {"lines", slice.lines},
          {"sources", slice.sources}, {"marked", slice.marked}, {"first_wrong", first}};
}

}  // namespace lanescope
