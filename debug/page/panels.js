// What stands around the heat map: stages, one value, the lanes of a warp, tables. Text from the
// dump only ever becomes text nodes.

/** "0.21" where it holds, "✗ 12, 3.4e5" where 12 are wrong; with the first divergence linked. Where
 *  the run broke off, what is only unwritten is nobody's first. */
function verdict_cell(report, link) {
  if (!report) return element("td", {class: "dim"}, "–");
  if (report.failed === 0) {
    return element("td", {class: "good"}, number_text(report.max_error_over_bound, 2));
  }
  const all = report.unwritten === report.failed;
  const words = [`✗ ${report.failed}${all ? " unwritten" : ""}`];
  if (report.unwritten && !all) words.push(`${report.unwritten} unwritten`);
  if (report.non_finite) words.push(`${report.non_finite} nan/inf`);
  if (!report.unwritten && !report.non_finite) words.push(number_text(report.max_error_over_bound, 2));
  if (!report.first) return element("td", {class: "bad"}, words.join(", "));
  return element("td", {}, element("a", {class: "bad", href: link(report.first), title: "its first divergence"}, words.join(", ")));
}

/** A box for each stage: its sites, their verdicts. */
function show_stages(select, link, current) {
  const stages = [...new Set(data.sites.map((site) => site.stage))];
  fill("stages", ...stages.map((stage) => {
    const lines = data.sites.filter((site) => site.stage === stage).map(({site}) => {
      const report = (by) => data.report.sites.find((entry) => entry.site === site && entry.judgement === by);
      const button = element("button", {type: "button", "aria-current": site === current, "data-key": `stage ${site}`, onclick: () => select(site)}, site);
      return element("tr", {}, element("td", {}, button), verdict_cell(report("local"), link), verdict_cell(report("chain"), link));
    });
    return element("table", {class: "stage"}, element("caption", {}, stage),
      element("tr", {}, element("th"), element("th", {}, "local"), element("th", {}, "chain")), ...lines);
  }));
}

/** What the row and column of an element are in the problem. */
function logical_rows(tile, slot) {
  const {heads, len_q} = data.report.shape, {br, bc, splits, heads_per_tile} = data.report.tile, {axes} = tile.site;
  const row_tile = Math.floor(tile.block / splits), split = tile.block % splits;
  const group = Math.floor(row_tile / data.q_tiles), groups = heads / heads_per_tile;
  const row = tile.rows[slot], col = tile.cols[slot];
  // The rows of a group of heads stand behind each other.
  const group_row = (row_tile % data.q_tiles) * br + (axes.startsWith("query") ? Math.max(row, 0) : 0);
  const head = (group % groups) * heads_per_tile + Math.floor(group_row / len_q);
  const key = (split * data.kv_tiles + tile.tile) * bc;
  const lines = [["batch, head", `${Math.floor(group / groups)}, ${head}`]];
  if (splits > 1 && !tile.site.per_row_tile) lines.push(["split", split]);
  if (row < 0) return [...lines, ["element", "none: the slot stands for none, or another lane speaks for it"]];
  if (axes === "key_d") lines.push(["key", key + row]);
  else lines.push(["query", group_row % len_q]);
  if (axes === "query_key") lines.push(["key", key + col]);
  if (axes.endsWith("_d")) lines.push(["d", col]);
  return [...lines, ["row, column", `${row}, ${col} of the tile`]];
}

function show_value(tile, slot) {
  if (!tile || slot < 0) return fill("value", row_of("", "point at an element"));
  const holder = tile.holder(slot), text = (x) => number_text(x, 9);
  const value = tile.unwritten(slot) ? "never written" : text(tile.value(slot));
  const rows = [["value", value], ["bits", hex(tile.type, tile.bits[slot])]];
  if (tile.other) {
    const bits = tile.other[slot], steps = tile.steps(slot);
    const gone = bits === formats[tile.type].poison;
    rows.push(["other dump", gone ? "never written" : text(value_of(tile.type, bits))], ["its bits", hex(tile.type, bits)]);
    rows.push(["apart", steps === 0 ? "the same" : steps === Infinity ? "not comparable" : `${steps} representable numbers`]);
  }
  for (const by of ["local", "chain"]) {
    if (!tile.judged(slot, by)) {
      rows.push([by, "not judged"]);
      continue;
    }
    const wrong = tile.wrong(slot, by);
    const wanted = kind_of(tile, slot, by) === "wanted" ? element("span", {}, by === "local" ? ", it comes of what was received" : ", it is the true value") : "";
    rows.push([element("b", {}, by), element("span", {}, element("b", {class: wrong ? "bad" : "good"}, wrong ? "diverged" : "holds"), wanted)]);
    rows.push(["  reference", number_text(tile.want(slot, by), wrong ? 7 : 9)], ["  bound", number_text(tile.bound(slot, by), 4)]);
    if (!tile.unwritten(slot)) {
      rows.push(["  error", `${number_text(tile.error(slot, by), 4)}, ${number_text(tile.ratio(slot, by), 4)} bounds`]);
    }
  }
  if (holder) rows.push(["warp, lane", `${holder.warp}, ${holder.lane}`]);
  if (holder && holder.reg !== null) rows.push(["register", holder.reg]);
  rows.push(["block, tile", `${tile.block}, ${tile.site.per_tile ? tile.tile : "–"}`], ...logical_rows(tile, slot));
  fill("value", ...rows.map(([name, what]) => element("tr", {}, element("th", {}, name), element("td", {}, what))));
}

/** The 32 lanes of a warp as a fragment orders them, 8 rows of 4: one register of each, or, where
 *  threads wrote to memory, the worst of what each wrote. */
function show_lanes(tile, state, choose) {
  const held = new Map();
  for (let slot = 0; tile && slot < tile.count; ++slot) {
    const holder = tile.site.space !== "registers" && tile.rows[slot] < 0 ? null : tile.holder(slot);
    if (!holder || holder.warp !== state.warp || (holder.reg ?? state.reg) !== state.reg) continue;
    held.set(holder.lane, [...(held.get(holder.lane) ?? []), slot]);
  }
  const note = !tile ? "" : held.size === 0 ? "No lane of this warp is known to hold an element." :
    tile.site.space === "shared" ? "The thread that wrote an element; the worst of its elements." : "";
  fill("lanes_note", note);
  const cell = (lane) => {
    const slots = held.get(lane) ?? [];
    if (slots.length === 0) return element("td", {class: "dim"}, lane);
    const slot = slots.includes(state.slot) ? state.slot : slots.reduce((a, b) => (severity(tile, b, state.by) > severity(tile, a, state.by) ? b : a));
    const colour = slot_colour(tile, tile.rows[slot] < 0 ? -1 : slot, state.by);
    const text = tile.unwritten(slot) ? "····" : number_text(tile.value(slot), 4);
    const more = slots.length > 1 ? ` of ${slots.length}` : "";
    const made = element("td", {class: slot === state.slot ? "current" : "", onmouseenter: () => choose(slot, false)},
      element("button", {type: "button", "data-key": `lane ${lane}`, onclick: () => choose(slot, true)},
        element("span", {class: "dim"}, lane), " ", text, more));
    if (colour !== palette.none) made.style.cssText = `background:${css(colour)};color:${ink_on(colour)}`;
    return made;
  };
  const lines = [];
  for (let lane = 0; held.size && lane < 32; lane += 4) {
    lines.push(element("tr", {}, ...[0, 1, 2, 3].map((i) => cell(lane + i))));
  }
  fill("lanes", ...lines);
}

function table(id, head, rows) {
  fill(id, element("tr", {}, ...head.map((name) => element("th", {}, name))), ...rows.map((cells) => row_of(...cells)));
}

function show_legend(by) {
  const items = by === "bits"
    ? [["the same", palette.holds0], ["differs", palette.wrong0], ["by far", palette.wrong1], ["in one dump only", palette.none]]
    : [["0", palette.holds0], ["1 bound", palette.holds1], ["above", palette.wrong0], ["10⁶ or inf", palette.wrong1],
      ["nan or inf", palette.special, "×"], ["nan or inf, received", palette.wanted, "×"], ["unwritten", palette.unwritten, "•"], ["not judged", palette.none]];
  fill("legend", ...items.map(([text, colour, mark]) => {
    const box = element("i", {"aria-hidden": true}, mark ?? "");
    box.style.cssText = `background:${css(colour)};color:${ink_on(colour)}`;
    return element("span", {}, box, text);
  }));
}
