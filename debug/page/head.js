// The head of the page, which says what the page's verdicts are of and what they are, and the tables
// below the views. All of it is written once.

const places = ["tile", "block", "warp", "lane", "reg", "row", "col"];

/** "tile 0, warp 3", of those that a place has. */
function place_text(at, names = places) {
  return names.filter((name) => (at[name] ?? null) !== null).map((name) => `${name} ${at[name]}`).join(", ");
}

function range_text(begin, end) { return end - begin === 1 ? `${begin}` : `${begin} to ${end - 1}`; }

/** What the verdict leaves out, in words; nothing where all of the problem was judged. */
function left_out() {
  const {judged, block_count, kv_tiles, blocks, tiles} = data, parts = [];
  if (judged.length < block_count) {
    const some = judged.length > 12 ? `${judged.slice(0, 12).join(", ")}, …` : judged.join(", ");
    parts.push(`${judged.length} of ${block_count} blocks are judged (${some})`);
  }
  if (!data.sites.some((site) => !site.per_row_tile)) return parts;
  if (blocks[1] - blocks[0] < block_count) parts.push(`the sites were traced in ${blocks[1] - blocks[0]} of ${block_count} blocks (${range_text(...blocks)})`);
  if (tiles[1] - tiles[0] < kv_tiles) parts.push(`${tiles[1] - tiles[0]} of ${kv_tiles} tiles were traced (${range_text(...tiles)})`);
  return parts;
}

/** A verdict: its word on its colour, what follows. */
function verdict_of(good, word, ...words) {
  return [element("b", {class: good ? "good" : "bad"}, word), ...words];
}

function first_link(at, by, text) {
  return element("a", {id: "first", class: "bad", href: link_to(at, by)}, text);
}

/** Why the verdict is no match where no value is wrong. */
function words_without_first() {
  const {incomplete, stop, warnings, contradictions} = data.report;
  if (contradictions.length) return "the dump contradicts itself";
  if (!incomplete) return warnings.join("; ");
  const strayed = ["stray", "input"].includes(stop?.kind);
  return strayed ? "the kernel wrote where it must not; no other value is wrong" : "the run did not end; nothing that it wrote is wrong";
}

function reference_verdict() {
  const {report} = data, {first} = report, part = left_out().length ? " in part" : "";
  const compared = report.sites.reduce((sum, site) => sum + site.compared, 0);
  if (report.verdict === "match") return verdict_of(true, `match${part}`, `${compared} comparisons within their bounds`);
  if (report.verdict === "variant") {
    return verdict_of(true, `variant${part}`, "outputs are right; the recurrence differs: ", report.recurrence.join("; "));
  }
  if (!first) return verdict_of(false, `${report.verdict}${part}`, words_without_first());
  const got = first.unwritten ? "never written" : `got ${number_text(first.got, 9)}`;
  return verdict_of(false, `diverged${part}`, "first in ",
    first_link(first, first.judgement, `${first.stage} / ${first.site}, ${first.judgement}: ${place_text(first)}`),
    `: ${got}, want ${number_text(first.want, 9)} ± ${number_text(first.bound, 3)}`);
}

function bits_verdict() {
  const {verdict, first, tensors} = data.other.bits, sum = (name) => tensors.reduce((all, tensor) => all + tensor[name], 0);
  if (verdict === "match") return verdict_of(true, "the same bits", `${sum("compared")} values of ${tensors.length} tensors`);
  const lone = tensors.filter((tensor) => tensor.compared === 0).map((tensor) => tensor.tensor);
  const only = lone.length ? `; in one dump only: ${lone.join(", ")}` : "";
  if (!first) return verdict_of(false, "different", `the same bits where both hold a tensor${only}`);
  const words = `${first.tensor}: ${place_text(first)}`;
  return verdict_of(false, "different", `${sum("differing")} of ${sum("compared")} values, first in `,
    sites.has(first.tensor) ? first_link(first, "bits", words) : words, only);
}

/** Where the warps of a run that broke off were last seen: one line for the warps of a block that
 *  came as far as each other. */
function last_site_items() {
  const lines = new Map();
  for (const last of data.report.last_sites) {
    const key = last.lane === null ? [last.block, last.site, last.tile].join() : "lane";
    lines.set(key, [...(lines.get(key) ?? []), last]);
  }
  return [...lines.values()].slice(0, most_last_sites).map((group) => {
    const {block, warp, lane, site, tile} = group[0];
    const who = group.length > 1 ? `block ${block}, warps ${group.map((last) => last.warp).join(", ")}` : place_text({block, warp, lane}, ["block", "warp", "lane"]);
    const where = tile === null ? site : `${site} of tile ${tile}`;
    return element("li", {}, `${who} came to `, sites.has(site) ? element("a", {href: last_link(group[0])}, where) : "nothing");
  });
}

const most_last_sites = 6;

function notes() {
  const {report, judged} = data;
  const others = [...report.contradictions.map((line) => `contradiction: ${line}`), ...report.warnings].map((line) => element("li", {}, line));
  others.push(...last_site_items());
  if (judged.length < data.block_count) {
    others.push(element("li", {}, `Other blocks: ${data.command} --block 0..3 -o page.html${data.other ? "" : `; all: ${data.command.replace(" report ", " diff ")}`}`));
  }
  const tiles = new Set(data.kept.filter(({site}) => sites.get(site).per_tile).map(({block, tile}) => `${block} ${tile}`)).size;
  const there = (end_tile - first_tile) * judged.filter((block) => data.blocks[0] <= block && block < data.blocks[1]).length;
  if (tiles < there && data.sites.some((site) => site.per_tile)) {
    others.push(element("li", {}, `Element by element this page holds ${tiles} of the ${there} tiles of these blocks, the diverged ones first; of the rest the largest error. One of them: ${data.command} --block 0 --tile 0 -o tile.html`));
  }
  return others;
}

function show_bit_table() {
  document.getElementById("bits").hidden = false;
  table("bit_table", ["tensor", "compared", "differing", "first"], data.other.bits.tensors.map((tensor) => {
    const {first} = tensor;
    const words = first && `block ${first.block}, tile ${first.tile ?? "–"}, row ${first.row}, col ${first.col}`;
    const link = first && sites.has(tensor.tensor) ? element("a", {href: link_to(first, "bits")}, words) : "";
    return [tensor.tensor, tensor.compared || "in one dump only", tensor.differing, link];
  }));
}

function show_head() {
  const {report} = data, {shape, tile} = report, reference = reference_verdict(), out = left_out();
  const verdict = data.other ? bits_verdict() : reference;
  document.title = `${report.kernel} ${report.gate}: ${verdict[0].textContent}`;
  fill("run", `${report.kernel} ${report.gate} `, element("small", {}, `${report.backend}, ${report.device}; ${report.dtype}; ` +
    `b=${shape.batch} h=${shape.heads} hkv=${shape.heads_kv} s=${shape.len_q} skv=${shape.len_kv} d=${shape.d}${shape.causal ? " causal" : ""}; ` +
    `tile ${tile.br}×${tile.bc}; input ${report.input}, seed ${report.seed}`));
  fill("verdict", ...verdict);
  fill("reference", ...(data.other ? [`${data.path} against the reference: `, ...reference] : []));
  fill("part", out.length ? `Not all of the problem: ${out.join("; ")}.` : "");
  fill("notes", ...notes());
  fill("site", ...site_names.map((site) => element("option", {value: site}, site)));
  fill("by", ...judgements.map((by) => element("label", {}, element("input", {type: "radio", name: "by", value: by, onchange: () => change({by})}), " ", by)));
}

/** The error of a row; one of which something was never written may have none. */
function row_error_text({max_error, error_over_bound}) {
  if (max_error === 0 && error_over_bound === "inf") return "never written";
  return max_error === 0 && data.report.incomplete ? "0, or never written" : number_text(max_error, 4);
}

function show_tables() {
  const {report} = data;
  table("metadata", data.other ? ["", "this dump", "the other"] : ["", data.path],
    data.metadata.map(([name, value], i) => [element("span", {class: "dim"}, name), value, ...(data.other ? [data.other.metadata[i]?.[1] ?? ""] : [])]));
  table("worst_rows", ["batch", "head", "query", "largest error", "in bounds"],
    report.rows.map((row) => [row.batch, row.head, row.query, row_error_text(row), number_text(row.error_over_bound, 4)]));
  if (data.other) show_bit_table();
}
