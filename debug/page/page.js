// What is shown, and how it changes: by the mouse, by keys, by the address.

const site_names = data.sites.map((site) => site.site);
const judgements = data.other ? ["local", "chain", "bits"] : ["local", "chain"];
const [first_tile, end_tile] = data.tiles[1] > data.tiles[0] ? data.tiles : [0, 1];

const state = {site: site_names[0], block: data.judged[0], tile: first_tile, slot: -1, by: "chain", warp: 0, reg: 0, pinned: false};

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const has_verdict = (site, by) => data.report.sites.some((entry) => entry.site === site && entry.judgement === by);
const current_tile = () => tile_at(state.site, state.block, state.tile);

/** What the maps show of a site: the judgement that was chosen, or the one that the site has. */
function shown_by(site = state.site) {
  if (state.by === "bits" || has_verdict(site, state.by)) return state.by;
  return state.by === "local" ? "chain" : "local";
}

/** The slot that a divergence of the program's JSON names. */
function slot_of_divergence(at) {
  const site = sites.get(at.site ?? at.tensor);
  return site.space === "registers" ? (at.warp * 32 + at.lane) * site.regs + at.reg : at.row * site.cols + at.col;
}

/** To the last site that a warp of a run that broke off came to. */
function last_link({site, block, tile, warp, lane}) {
  const {space, regs} = sites.get(site), slot = space === "registers" && lane !== null ? {slot: (warp * 32 + lane) * regs} : {};
  return "#" + new URLSearchParams({site, block, tile: tile ?? first_tile, ...slot, by: "chain"});
}

/** The largest error of a site's report as a number; JSON has no inf. */
function size_of(report) { return Number(String(report.max_error_over_bound).replace("inf", "Infinity")); }

function link_to(at, by = at.judgement) {
  const tile = at.tile === null || at.tile < first_tile ? first_tile : at.tile;
  return "#" + new URLSearchParams({site: at.site ?? at.tensor, block: at.block, tile, slot: slot_of_divergence(at), by});
}

/** Where the page opens: at what its head says is first, else where a run broke off, else where the
 *  error is largest. */
function start_link() {
  const first = document.getElementById("first");
  if (first) return first.getAttribute("href");
  const last = data.report.last_sites.find(({site}) => sites.has(site));
  if (last) return last_link(last);
  const {worst} = data.report.sites.reduce((a, b) => (size_of(b) > size_of(a) ? b : a));
  return worst ? link_to(worst) : "#";
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
  const {space, warps, regs} = sites.get(state.site);
  state.warp = Math.max(state.warp, 0);
  if (space === "registers") Object.assign(state, {warp: clamp(state.warp, 0, warps - 1), reg: clamp(state.reg, 0, regs - 1)});
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

/** Pixels that an element and the bars beside the map take, [x, y, bars], of the room there is. */
function map_scale(tile) {
  const room = document.getElementById("controls").clientWidth - 12, bars = clamp(Math.floor(room / 5), 48, 150);
  const width = Math.min(room - bars, 768), height = clamp(Math.floor(innerHeight * 0.6), 384, 768);
  return [clamp(Math.floor(width / tile.width), 1, 24), clamp(Math.floor(height / tile.height), 2, 16), bars];
}

function show_map(tile) {
  const {site, by} = {site: sites.get(state.site), by: shown_by()};
  const where = site.per_tile ? `block ${state.block}, tile ${state.tile}` : `block ${state.block}`;
  const copies = tile && tile.copies > 1 ? `, each element as ${tile.copies} lanes hold it` : "";
  const shape = tile ? `${tile.height} × ${site.cols}${copies}` : "";
  fill("map_title", `${state.site}, ${where}, ${by} `, element("small", {}, `${site.space} ${site.type} ${shape}`, state.pinned ? "; pinned, Esc lets go" : ""));
  document.getElementById("map").hidden = !tile;
  const worst = worst_of(state.site, state.block, state.tile, by);
  const known = Number.isNaN(worst) ? "" : worst < 0 ? " Nothing is wrong in it, but a nan is wanted." : ` Its largest error is ${number_text(worst, 3)} bounds.`;
  const options = ` --block ${state.block}${site.per_tile ? ` --tile ${state.tile}` : ""} -o tile.html`;
  fill("missing", tile ? "" : `This page does not hold it element by element.${known} Where the dump has it: ${data.command}${options}`);
  if (!tile) return;
  const [x, y, bars] = map_scale(tile), cells = document.getElementById("cells");
  draw_tile(cells, tile, by, x, y);
  if (state.slot >= 0 && tile.rows[state.slot] >= 0) mark_slots(cells, tile, state.slot, x, y);
  draw_rows(document.getElementById("rows"), tile, by, bars, y, state.slot >= 0 ? tile.rows[state.slot] : -1);
}

/** All sites by the tiles around the current one, as many as there is room for. */
function show_tiles() {
  const thumbnails = clamp(Math.floor((document.getElementById("tiles_view").clientWidth - 80) / 72), 4, 16);
  const begin = clamp(state.tile - (thumbnails >> 1), first_tile, Math.max(end_tile - thumbnails, first_tile));
  const tiles = Array.from({length: Math.min(end_tile - begin, thumbnails)}, (_, i) => begin + i);
  const head = element("tr", {}, element("th", {}, "tile"), ...tiles.map((tile) => element("th", {}, tile)));
  const lines = data.sites.map(({site, per_tile}) => {
    const by = shown_by(site);
    const cells = (per_tile ? tiles : tiles.slice(0, 1)).map((tile) => {
      const canvas = element("canvas"), found = tile_at(site, state.block, tile);
      if (found) draw_tile(canvas, found, by, found.width < 16 ? 3 : 1, 1);
      else draw_blank(canvas, worst_of(site, state.block, tile, by), 16, 16);
      canvas.style.height = `${Math.min(canvas.height, 48)}px`;
      canvas.style.maxWidth = "96px";
      const current = site === state.site && (!per_tile || tile === state.tile);
      return element("td", {}, element("button", {type: "button", "data-key": `tile ${site} ${tile}`, "aria-label": `${site}, tile ${tile}`, "aria-current": current,
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
  const rank = (worst) => (worst > 1 ? 2 + worst : worst < 0 ? 1.5 : worst);
  fill("blocks", ...data.judged.map((block) => {
    const tiles = data.sites.flatMap(({site, per_tile}) =>
      Array.from({length: per_tile ? end_tile - first_tile : 1}, (_, i) => worst_of(site, block, first_tile + i, shown_by(site))));
    const worst = tiles.filter((worst) => !Number.isNaN(worst)).sort((a, b) => rank(b) - rank(a))[0] ?? NaN;
    const button = element("button", {type: "button", "data-key": `block ${block}`, "aria-label": `block ${block}`, title: `block ${block}`, "aria-current": block === state.block,
      onclick: () => change({block})});
    button.style.background = css(worst_colour(worst));
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

/** Draws all anew, or what hangs on the current slot. What had the focus and was made anew has it again. */
function render(all = true) {
  const focused = document.activeElement?.dataset.key;
  draw(all);
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({preventScroll: true});
}

function draw(all) {
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
    f: () => { document.getElementById("first")?.click(); document.getElementById("cells").focus({preventScroll: true}); },
    Escape: () => { state.pinned = false; change({}); },
  };
  document.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    if (event.key.startsWith("Arrow") && event.target.id !== "cells") return;  // elsewhere they scroll
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("hashchange", read_address);
  addEventListener("resize", () => render());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { read_palette(); render(); });
}

read_palette();
document.getElementById("tile").min = first_tile;
document.getElementById("tile").max = end_tile - 1;
document.getElementById("block").min = 0;
document.getElementById("block").max = data.block_count - 1;
show_head();
show_tables();
listen();
if (location.hash === "") history.replaceState(null, "", start_link());
read_address();
