// What is shown, and how it changes: by the mouse, by keys, by the address.

const site_names = data.sites.map((site) => site.site);
const judgements = data.other ? ["local", "chain", "bits"] : ["local", "chain"];
const [first_tile, end_tile] = data.tiles[1] > data.tiles[0] ? data.tiles : [0, 1];
const thumbnails = 16;  // tiles side by side

const state = {site: site_names[0], block: data.judged[0], tile: first_tile, slot: -1, by: "chain", warp: 0, reg: 0, pinned: false};

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const has_verdict = (site, by) => data.report.sites.some((entry) => entry.site === site && entry.judgement === by);
const current_tile = () => tile_at(state.site, state.block, state.tile);

/** What the maps show: the judgement that was chosen, or the one that the site has. */
function shown_by() {
  if (state.by === "bits" || has_verdict(state.site, state.by)) return state.by;
  return state.by === "local" ? "chain" : "local";
}

/** The slot that a divergence of the program's JSON names. */
function slot_of_divergence(at) {
  const site = sites.get(at.site ?? at.tensor);
  return site.space === "registers" ? (at.warp * 32 + at.lane) * site.regs + at.reg : at.row * site.cols + at.col;
}

function link_to(at, by = at.judgement) {
  const tile = at.tile === null || at.tile < first_tile ? first_tile : at.tile;
  return "#" + new URLSearchParams({site: at.site ?? at.tensor, block: at.block, tile, slot: slot_of_divergence(at), by});
}

function read_address() {
  const wish = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise) => (/^\d+$/.test(wish.get(name) ?? "") ? Number(wish.get(name)) : otherwise);
  if (sites.has(wish.get("site"))) state.site = wish.get("site");
  if (judgements.includes(wish.get("by"))) state.by = wish.get("by");
  state.block = clamp(number("block", state.block), 0, data.block_count - 1);
  state.tile = clamp(number("tile", state.tile), first_tile, end_tile - 1);
  state.slot = number("slot", -1);
  state.pinned = state.slot >= 0;
  follow_slot();
  render();
}

function write_address() {
  const {site, block, tile, slot, by, pinned} = state;
  const words = new URLSearchParams({site, block, tile, ...(pinned && slot >= 0 ? {slot} : {}), by});
  history.replaceState(null, "", "#" + words);
}

/** The lanes shown are those around the slot. */
function follow_slot() {
  const tile = current_tile();
  if (!tile) return;
  if (state.slot >= tile.count) state.slot = -1;
  const holder = state.slot < 0 ? null : tile.holder(state.slot);
  if (!holder) return;
  state.warp = holder.warp;
  state.reg = holder.reg ?? state.reg;
}

function change(part) {
  const moved = "site" in part || "block" in part || "tile" in part;
  Object.assign(state, part);
  state.block = clamp(state.block, 0, data.block_count - 1);
  state.tile = clamp(state.tile, first_tile, end_tile - 1);
  if ("site" in part && !("slot" in part)) state.slot = -1;
  if (moved || "slot" in part) follow_slot();
  write_address();
  render(moved || "by" in part);
}

function choose_slot(slot, pin) {
  if (slot < 0 || (slot === state.slot && !pin) || (state.pinned && !pin)) return;
  state.slot = slot;
  state.pinned = pin;
  follow_slot();
  if (pin) write_address();
  render(false);
}

function map_scale(tile) {
  return [clamp(Math.floor(576 / tile.width), 1, 24), clamp(Math.floor(576 / tile.height), 2, 16)];
}

function show_map(tile) {
  const {site, by} = {site: sites.get(state.site), by: shown_by()};
  const where = site.per_tile ? `block ${state.block}, tile ${state.tile}` : `block ${state.block}`;
  const copies = tile && tile.copies > 1 ? `, each element as ${tile.copies} lanes hold it` : "";
  const shape = tile ? `${tile.height} × ${site.cols}${copies}` : "";
  fill("map_title", `${state.site}, ${where}, ${by} `, element("small", {}, `${site.space} ${site.type} ${shape}`, state.pinned ? "; pinned, Esc lets go" : ""));
  document.getElementById("map").hidden = !tile;
  const worst = worst_of(state.site, state.block, state.tile, by);
  const known = Number.isNaN(worst) ? "" : ` Its largest error is ${number_text(worst, 3)} bounds.`;
  const options = ` --block ${state.block}${site.per_tile ? ` --tile ${state.tile}` : ""} -o tile.html`;
  fill("missing", tile ? "" : `This page does not hold it element by element.${known} Where the dump has it: ${data.command}${options}`);
  if (!tile) return;
  const [x, y] = map_scale(tile), cells = document.getElementById("cells");
  draw_tile(cells, tile, by, x, y);
  if (state.slot >= 0 && tile.rows[state.slot] >= 0) mark_slots(cells, tile, state.slot, x, y);
  draw_rows(document.getElementById("rows"), tile, by, y, state.slot >= 0 ? tile.rows[state.slot] : -1);
}

/** All sites by the tiles around the current one. */
function show_tiles() {
  const begin = clamp(state.tile - thumbnails / 2, first_tile, Math.max(end_tile - thumbnails, first_tile));
  const tiles = Array.from({length: Math.min(end_tile - begin, thumbnails)}, (_, i) => begin + i);
  const head = element("tr", {}, element("th", {}, "tile"), ...tiles.map((tile) => element("th", {}, tile)));
  const lines = data.sites.map(({site, per_tile}) => {
    const by = state.by === "bits" || has_verdict(site, state.by) ? state.by : state.by === "local" ? "chain" : "local";
    const cells = (per_tile ? tiles : tiles.slice(0, 1)).map((tile) => {
      const canvas = element("canvas"), found = tile_at(site, state.block, tile);
      if (found) draw_tile(canvas, found, by, found.width < 16 ? 3 : 1, 1);
      else draw_blank(canvas, worst_of(site, state.block, tile, by), 16, 16);
      canvas.style.height = `${Math.min(canvas.height, 48)}px`;
      canvas.style.maxWidth = "96px";
      const current = site === state.site && (!per_tile || tile === state.tile);
      return element("td", {}, element("button", {type: "button", "aria-label": `${site}, tile ${tile}`, "aria-current": current,
        onclick: () => change(per_tile ? {site, tile} : {site})}, canvas));
    });
    return element("tr", {}, element("th", {}, site), ...cells);
  });
  const more = tiles.length < end_tile - first_tile ? `: ${tiles[0]} to ${tiles.at(-1)} of ${first_tile} to ${end_tile - 1}` : "";
  fill("tiles_title", `Tiles of block ${state.block}${more}`);
  fill("tiles", element("table", {}, head, ...lines));
}

/** A square for each judged block: the largest error in it. */
function show_blocks() {
  if (data.judged.length < 2) return;
  fill("blocks", ...data.judged.map((block) => {
    let worst = NaN;
    for (const {site, per_tile} of data.sites) {
      for (let tile = first_tile; tile < (per_tile ? end_tile : first_tile + 1); ++tile) {
        for (const by of ["local", "chain"]) {
          if (state.by === by) worst = Math.max(Number.isNaN(worst) ? 0 : worst, worst_of(site, block, tile, by) || 0);
        }
      }
    }
    const button = element("button", {type: "button", "aria-label": `block ${block}`, title: `block ${block}`, "aria-current": block === state.block,
      onclick: () => change({block})});
    button.style.background = css(ratio_colour(worst, worst > 1));
    return button;
  }));
}

function show_controls() {
  document.getElementById("site").value = state.site;
  document.getElementById("block").value = state.block;
  document.getElementById("tile").value = state.tile;
  fill("tile_text", ` ${state.tile} of ${first_tile} to ${end_tile - 1}`);
  for (const radio of document.querySelectorAll("#by input")) radio.checked = radio.value === state.by;
  show_legend(state.by);
}

/** `all`: more than the current slot has changed. */
function render(all = true) {
  const tile = current_tile();
  if (all) {
    show_controls();
    show_stages((site) => change({site}), link_to, state.site);
    show_blocks();
    show_tiles();
  }
  show_map(tile);
  show_value(tile, state.slot);
  const {site} = tile ?? {};
  fill("lanes_title", `Lanes of warp ${state.warp}`, site?.space === "registers" ? `, register ${state.reg}` : "");
  document.getElementById("lane_controls").hidden = !tile;
  document.getElementById("warp").value = state.warp;
  document.getElementById("reg").value = state.reg;
  document.getElementById("reg").disabled = site?.space === "shared";
  show_lanes(tile, {...state, by: shown_by()}, choose_slot);
}

function verdict_line() {
  const {report} = data, {first} = report;
  const compared = report.sites.reduce((sum, site) => sum + site.compared, 0);
  if (report.verdict === "match") return [`match: ${compared} comparisons within their bounds`];
  if (!first) return ["no match: ", report.warnings.join("; ")];
  const place = ["tile", "block", "warp", "lane", "reg", "row", "col"].filter((name) => first[name] !== null);
  const got = first.unwritten ? "never written" : `got ${number_text(first.got, 9)}`;
  const words = `${first.stage} / ${first.site}, ${first.judgement}: ` + place.map((name) => `${name} ${first[name]}`).join(", ");
  return ["diverged first in ", element("a", {id: "first", class: "bad", href: link_to(first)}, words),
    `: ${got}, want ${number_text(first.want, 9)} ± ${number_text(first.bound, 3)}`];
}

function notes() {
  const lines = [...data.report.warnings], {judged} = data;
  if (judged.length < data.block_count) {
    const some = judged.length > 12 ? judged.slice(0, 12).join(", ") + ", …" : judged.join(", ");
    lines.push(`Judged here: ${judged.length} of ${data.block_count} blocks (${some}). Others: ${data.command} --block 0..3 -o page.html${data.other ? "" : `; all: ${data.command.replace(" report ", " diff ")}`}`);
  }
  const tiles = new Set(data.kept.filter(({site}) => sites.get(site).per_tile).map(({block, tile}) => `${block} ${tile}`)).size;
  const there = (end_tile - first_tile) * judged.filter((block) => data.blocks[0] <= block && block < data.blocks[1]).length;
  if (tiles < there) {
    lines.push(`Element by element this page holds ${tiles} of the ${there} tiles of these blocks, the diverged ones first; of the rest the largest error. One of them: ${data.command} --block 0 --tile 0 -o tile.html`);
  }
  return lines;
}

function show_once() {
  const {report} = data, {shape, tile} = report;
  document.title = `${report.kernel} ${report.gate}: ${report.verdict}`;
  fill("run", `${report.kernel} ${report.gate} `, element("small", {}, `${report.backend}, ${report.device}; ${report.dtype}; ` +
    `b=${shape.batch} h=${shape.heads} hkv=${shape.heads_kv} s=${shape.len_q} skv=${shape.len_kv} d=${shape.d}${shape.causal ? " causal" : ""}; ` +
    `tile ${tile.br}×${tile.bc}; input ${report.input}, seed ${report.seed}`));
  fill("verdict", ...verdict_line());
  fill("notes", ...notes().map((line) => element("li", {}, line)));
  fill("site", ...site_names.map((site) => element("option", {value: site}, site)));
  fill("by", ...judgements.map((by) => element("label", {}, element("input", {type: "radio", name: "by", value: by, onchange: () => change({by})}), " ", by)));
  table("metadata", data.other ? ["", "this dump", "the other"] : ["", data.path],
    data.metadata.map(([name, value], i) => [element("span", {class: "dim"}, name), value, ...(data.other ? [data.other.metadata[i]?.[1] ?? ""] : [])]));
  table("worst_rows", ["batch", "head", "query", "largest error", "in bounds"],
    report.rows.map((row) => [row.batch, row.head, row.query, number_text(row.max_error, 4), number_text(row.error_over_bound, 4)]));
  if (!data.other) return;
  document.getElementById("bits").hidden = false;
  table("bit_table", ["tensor", "compared", "differing", "first"], data.other.bits.tensors.map((tensor) => {
    const {first} = tensor;
    const link = first && sites.has(tensor.tensor) ? element("a", {href: link_to(first, "bits")}, `block ${first.block}, tile ${first.tile ?? "–"}, row ${first.row}, col ${first.col}`) : "";
    return [tensor.tensor, tensor.compared || "in one dump only", tensor.differing, link];
  }));
}

function move_slot(dx, dy) {
  const tile = current_tile();
  if (!tile) return;
  const from = state.slot >= 0 && tile.rows[state.slot] >= 0 ? [tile.x(state.slot), tile.rows[state.slot]] : [-dx, -dy];
  choose_slot(tile.slot_at(from[0] + dx, from[1] + dy), true);
}

function listen() {
  const on = (id, event, act) => document.getElementById(id).addEventListener(event, act);
  const slot_under = (event) => {
    const tile = current_tile(), [x, y] = map_scale(tile);
    return tile.slot_at(Math.floor(event.offsetX / x), Math.floor(event.offsetY / y));
  };
  on("cells", "mousemove", (event) => choose_slot(slot_under(event), false));
  on("cells", "click", (event) => choose_slot(slot_under(event), true));
  on("site", "change", (event) => change({site: event.target.value}));
  on("block", "change", (event) => change({block: Number(event.target.value)}));
  on("tile", "input", (event) => change({tile: Number(event.target.value)}));
  on("warp", "change", (event) => change({warp: Number(event.target.value)}));
  on("reg", "change", (event) => change({reg: Number(event.target.value)}));
  on("controls", "submit", (event) => event.preventDefault());
  const step = (list, from, by) => list[(list.indexOf(from) + by + list.length) % list.length];
  const keys = {
    ArrowLeft: () => move_slot(-1, 0), ArrowRight: () => move_slot(1, 0), ArrowUp: () => move_slot(0, -1), ArrowDown: () => move_slot(0, 1),
    "[": () => change({tile: state.tile - 1}), "]": () => change({tile: state.tile + 1}),
    "{": () => change({block: step(data.judged, state.block, -1)}), "}": () => change({block: step(data.judged, state.block, 1)}),
    j: () => change({site: step(site_names, state.site, 1)}), k: () => change({site: step(site_names, state.site, -1)}),
    r: () => change({reg: state.reg + 1}), R: () => change({reg: Math.max(state.reg - 1, 0)}),
    c: () => change({by: step(judgements, state.by, 1)}),
    f: () => document.getElementById("first")?.click(),
    Escape: () => { state.pinned = false; change({}); },
  };
  document.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("hashchange", read_address);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { read_palette(); render(); });
}

read_palette();
document.getElementById("tile").min = first_tile;
document.getElementById("tile").max = end_tile - 1;
document.getElementById("block").min = 0;
document.getElementById("block").max = data.block_count - 1;
show_once();
listen();
if (location.hash === "") {
  const worst = data.report.sites.reduce((a, b) => (b.max_error_over_bound > a.max_error_over_bound ? b : a)).worst;
  const first = data.report.first ?? worst;
  if (first) history.replaceState(null, "", link_to(first));
}
read_address();
