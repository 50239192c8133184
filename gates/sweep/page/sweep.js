// The map, the tables and what is chosen for them. Counts only: verdicts, rules and errors are the
// program's.

const ceil_div = (a, b) => Math.ceil(a / b);
const br_of = (cell) => Number(cell.tile.split("x")[0]), bc_of = (cell) => Number(cell.tile.split("x")[1]);

/** What a map may have across and down. */
const sides = {
  "skv": (cell) => cell.skv, "s": (cell) => cell.s, "d": (cell) => cell.d, "h": (cell) => cell.h, "hkv": (cell) => cell.hkv,
  "h / hkv": (cell) => cell.h / cell.hkv, "b": (cell) => cell.b, "splits": (cell) => cell.splits,
  "ceil(skv / Bc)": (cell) => ceil_div(cell.skv, bc_of(cell)), "ceil(s / Br)": (cell) => ceil_div(cell.s, br_of(cell)),
  "skv % Bc": (cell) => cell.skv % bc_of(cell), "s % Br": (cell) => cell.s % br_of(cell),
  "s - skv": (cell) => cell.s - cell.skv, "index": (cell) => cell.index ?? -1,
  "causal": (cell) => String(cell.causal), "dtype": (cell) => cell.dtype, "tile": (cell) => cell.tile, "input": (cell) => cell.input,
  "gate": (cell) => cell.gate, "kernel": (cell) => cell.kernel, "backend": (cell) => cell.backend, "outcome": (cell) => cell.outcome,
};

const number_of = (x) => (x === null || x === undefined ? NaN : Number(String(x).replace("inf", "Infinity")));
const largest = (numbers) => numbers.reduce((a, b) => (b > a || Number.isNaN(a) ? b : a), NaN);
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const worst_error = (cell) => largest(cell.errors.map(number_of).filter((x) => !Number.isNaN(x)));
const failing = (cells) => cells.filter((cell) => cell.failed).length;
const timed = data.cells.some((cell) => cell.microseconds !== null);
const compared = data.cells.some((cell) => cell.peer_microseconds !== null);

/** What the colour of a field may say: its number, and that number's share of the scale, 0 to 1. */
const colours = {
  "share that fails": {number: (cells) => failing(cells) / cells.length, share: (x) => x, bad: (x) => x > 0, text: (x) => `${Math.round(100 * x)} %`},
  "largest error over bound": {number: (cells) => largest(cells.map(worst_error)), share: (x) => (x > 1 ? Math.min(Math.log10(x) / 6, 1) : x), bad: (x) => x > 1, text: (x) => number_text(x, 3)},
  "processor seconds, median": {number: (cells) => median(cells.map((cell) => cell.seconds)), text: (x) => `${number_text(x, 3)} s`},
  ...(timed ? {"microseconds, median": {number: (cells) => median(cells.map((cell) => number_of(cell.microseconds))), text: (x) => `${number_text(x, 3)} µs`}} : {}),
  ...(compared ? {"times the peer, median": {number: (cells) => median(cells.map((cell) => number_of(cell.microseconds) / number_of(cell.peer_microseconds))),
    share: (x) => Math.min(Math.abs(Math.log2(x)) / 2, 1), bad: (x) => x > 1, words: {good: "faster", poor: "slower"}, text: (x) => number_text(x, 3)}} : {}),
};

const most_fields = 36;

/** The fields of a side: one for each value, or ranges that hold about as many cells each. */
function fields_of(cells, side) {
  const values = [...new Set(cells.map(sides[side]))];
  if (typeof values[0] === "string") return values.sort().map((value) => ({text: value, holds: (x) => x === value}));
  values.sort((a, b) => a - b);
  if (values.length <= most_fields) return values.map((value) => ({text: value, holds: (x) => x === value}));
  const all = cells.map(sides[side]).sort((a, b) => a - b), edges = [];
  for (let i = 0; i < most_fields; ++i) {
    const edge = all[Math.floor(i * all.length / most_fields)];
    if (edge !== edges.at(-1)) edges.push(edge);
  }
  return edges.map((edge, i) => {
    const end = edges[i + 1] ?? Infinity, last = i + 1 < edges.length ? end - 1 : all.at(-1);
    return {text: edge === last ? edge : `${edge}–${last}`, holds: (x) => x >= edge && x < end};
  });
}

const chosen = (id) => document.getElementById(id).value;

function shown_cells() {
  const tried = document.getElementById("tried").checked, kernel = chosen("kernel");
  return data.cells.filter((cell) => (tried || cell.index !== null) && (kernel === "all" || cell.kernel === kernel));
}

function colour_of(x, colour, top) {
  const share = Math.max(0, Math.min(1, colour.share ? colour.share(x) : top > 0 ? x / top : 0));
  const [from, to] = colour.bad?.(x) ? ["wrong0", "wrong1"] : ["holds0", "holds1"];
  return `color-mix(in srgb, var(--${to}) ${Math.round(100 * share)}%, var(--${from}))`;
}

function show_field(cells, where) {
  fill("field_title", `${where}: ${cells.length} cell${cells.length === 1 ? "" : "s"}, ${failing(cells)} fail`);
  const sorted = [...cells].sort((a, b) => b.failed - a.failed);
  fill("field", ...sorted.slice(0, 12).map((cell) => row_of(
    element("span", {class: cell.failed ? "bad" : "good"}, cell.way ?? cell.outcome), `lanescope ${cell.command}`)));
}

function draw_map() {
  const cells = shown_cells(), [across, down] = [chosen("across"), chosen("down")], colour = colours[chosen("colour")];
  const columns = fields_of(cells, across), rows = fields_of(cells, down).reverse();
  const fields = rows.map((row) => columns.map((column) => []));
  for (const cell of cells) {
    fields[rows.findIndex((row) => row.holds(sides[down](cell)))][columns.findIndex((column) => column.holds(sides[across](cell)))].push(cell);
  }
  const numbers = fields.flat().filter((field) => field.length).map(colour.number).filter(Number.isFinite);
  const top = largest(numbers);
  const body = rows.map((row, i) => element("tr", {}, element("th", {}, row.text), ...columns.map((column, j) => {
    const field = fields[i][j];
    if (!field.length) return element("td");
    const x = colour.number(field), where = `${down} ${row.text}, ${across} ${column.text}`;
    const button = element("button", {type: "button", title: `${where}: ${colour.text(x)} (${field.length} cells, ${failing(field)} fail)`,
      "aria-label": where, style: `background: ${colour_of(x, colour, top)}`, onclick: () => show_field(field, where)});
    return element("td", {}, button);
  })));
  fill("sweep_map", ...body, element("thead", {}, element("tr", {}, element("th", {}, `${down} ↑  ${across} →`), ...columns.map((column) => element("th", {}, column.text)))));
  fill("map_title", `${chosen("colour")} `, element("small", {}, `${cells.length} cells: ${down} down, ${across} across; empty: no cell`));
  const {good = "right", poor = "wrong"} = colour.words ?? {}, scale = colour.share ? good : `up to ${colour.text(top)}`;
  fill("legend", ...[["holds1", scale], ...(colour.bad ? [["wrong1", poor]] : [])].map(([name, word]) =>
    element("span", {}, element("i", {style: `background: var(--${name})`}), word)));
}

const site_width = 420, bound_at = 300;

/** Where an error of so many bounds stands: up to 1 as it is, beyond by the logarithm. */
function error_place(x) {
  return x <= 1 ? x * bound_at : bound_at + Math.min(Math.log10(x) / 6, 1) * (site_width - bound_at - 2);
}

function draw_sites() {
  document.getElementById("sites_view").hidden = data.sites.length === 0;
  const cells = shown_cells(), style = getComputedStyle(document.documentElement);
  fill("sites", ...data.sites.map((site, i) => {
    const canvas = element("canvas", {width: site_width, height: 16, "aria-label": `errors of ${site}`});
    const errors = cells.map((cell) => number_of(cell.errors[i])).filter((x) => !Number.isNaN(x));
    const pen = canvas.getContext("2d");
    for (const x of errors) {
      pen.fillStyle = style.getPropertyValue(x > 1 ? "--wrong1" : "--holds1");
      pen.globalAlpha = x > 1 ? 0.8 : 0.35;
      pen.fillRect(error_place(x), 2, 1.5, 12);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--ink");
    pen.fillRect(bound_at, 0, 1, 16);
    return row_of(site, canvas, errors.length ? `≤ ${number_text(largest(errors), 3)}` : "–");
  }));
}

function draw_slowest() {
  const by = timed ? (cell) => number_of(cell.microseconds) || 0 : (cell) => cell.seconds;
  fill("slowest_title", "Slowest cells ", element("small", {}, timed ? "microseconds of a launch" : "seconds of processor time, run and judged"));
  fill("slowest", ...[...shown_cells()].sort((a, b) => by(b) - by(a)).slice(0, 12).map((cell) => row_of(number_text(by(cell), 3), `lanescope ${cell.command}`)));
}

function rule_text(rule) {
  if (rule.failing === rule.cells) return "fails in every cell";
  const words = rule.clauses.map(({conditions, failing: fail, passing}, i) =>
    `${i ? "else" : "fails"} whenever ${conditions.join(" and ")}: ${fail} of ${fail + passing} cells`);
  const rest = rule.unexplained ? `, but for ${rule.unexplained} cells` : "";
  return words.length ? `${words.join("; ")}; else never${rest}` : "no rule is shorter than a list of the failing cells";
}

function draw_head() {
  const {summary} = data, outcomes = Object.entries(summary.outcomes).filter(([, count]) => count > 0);
  const kernels = [...new Set(data.cells.map((cell) => cell.kernel))];
  fill("title", `sweep of ${kernels.join(", ")}`);
  const bad = summary.failing > 0;
  fill("verdict", element("b", {class: bad ? "bad" : "good"}, bad ? "fails" : "no failure"), `${bad ? `${summary.failing} of ` : "in "}${summary.cells} cells`);
  fill("counts", outcomes.map(([name, count]) => `${count} ${name}`).join(", "),
    summary.seconds ? `; ${Math.round(summary.cells_per_minute)} cells a minute` : "", summary.stopped ? `; ended early (${summary.stopped})` : "");
  fill("rules", ...summary.rules.map((rule) => element("p", {class: "rule"}, element("b", {}, `${rule.kernel}: `), rule_text(rule))));
  fill("ways", ...summary.ways.slice(0, 6).map((way) => element("p", {}, element("span", {class: "bad"}, `${way.kernel}: ${way.way}`),
    ` in ${way.cells} cells; smallest `, element("code", {}, `lanescope ${way.command}`), way.cause ? `; ${way.cause}${way.certain ? "" : " (not certain)"}: ${way.explanation}` : "")));
  fill("metadata", ...["lanescope", "build", "source_hash", "compile_flags", "device", "host", "time", "sweep"].map((name) => row_of(name, data.provenance[name === "lanescope" ? "version" : name] ?? "–")));
}

function draw() {
  draw_map();
  draw_sites();
  draw_slowest();
  fill("field");
  fill("field_title", "Cells of a field: choose one of the map");
}

function offer(id, names, first) {
  fill(id, ...names.map((name) => element("option", name === first ? {selected: ""} : {}, name)));
  document.getElementById(id).addEventListener("change", draw);
}

const wish = new URLSearchParams(location.hash.slice(1));
offer("across", Object.keys(sides), wish.get("across") ?? "skv");
offer("down", Object.keys(sides), wish.get("down") ?? "s");
offer("colour", Object.keys(colours), wish.get("colour") ?? (compared ? "times the peer, median" : timed ? "microseconds, median" : "share that fails"));
offer("kernel", ["all", ...new Set(data.cells.map((cell) => cell.kernel))], "all");
document.getElementById("tried").addEventListener("change", draw);
draw_head();
draw();
