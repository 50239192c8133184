// Colours, marks, heat maps, bars.

/** The colours of the page's style, as [red, green, blue]; read again when light turns dark. */
let palette = {};
function read_palette() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["holds0", "holds1", "wrong0", "wrong1", "special", "wanted", "unwritten", "none", "mark", "ink", "line"]) {
    const text = style.getPropertyValue("--" + name).trim();
    palette[name] = [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  }
}

function mix(from, to, share) {
  return from.map((x, i) => Math.round(x + (to[i] - x) * share));
}

/** The colour of an error of `ratio` bounds: one scale where it holds, up to 1, another one, the
 *  logarithm up to a million bounds, where it does not. NaN: not judged. */
function ratio_colour(ratio, wrong) {
  if (wrong) return ratio < 1e6 ? mix(palette.wrong0, palette.wrong1, Math.log10(Math.max(ratio, 1)) / 6) : palette.wrong1;
  return Number.isNaN(ratio) ? palette.none : mix(palette.holds0, palette.holds1, Math.min(ratio, 1));
}

/** The colour of a tile or block whose largest error is `worst`, as the program has it. */
function worst_colour(worst) {
  return worst < 0 ? palette.wanted : ratio_colour(worst, worst > 1);
}

/** What is special about a slot: "unwritten"; "special", a nan or inf where another value is wanted;
 *  "wanted", one that is right, but comes of an error: a nan, or an inf that is not the true value.
 *  Else null. */
function kind_of(tile, slot, by) {
  if (slot < 0 || by === "bits") return null;
  const padding = by in tile.verdicts && !tile.judged(slot, by);
  if (tile.unwritten(slot)) return padding ? null : "unwritten";
  if (!tile.judged(slot, by) || Number.isFinite(tile.value(slot))) return null;
  if (tile.wrong(slot, by)) return "special";
  const untrue = tile.judged(slot, "chain") && tile.wrong(slot, "chain");
  return untrue || Number.isNaN(tile.value(slot)) ? "wanted" : null;
}

function slot_colour(tile, slot, by) {
  const kind = kind_of(tile, slot, by);
  if (kind) return palette[kind];
  if (slot < 0) return palette.none;
  if (by === "bits") {
    const steps = tile.other ? tile.steps(slot) : NaN;
    return ratio_colour(steps, steps > 0);
  }
  return tile.judged(slot, by) ? ratio_colour(tile.ratio(slot, by), tile.wrong(slot, by)) : palette.none;
}

function css(colour) { return `rgb(${colour.join()})`; }

/** Black or white, whichever has more contrast on `colour` (WCAG 2, relative luminance). */
function ink_on([red, green, blue]) {
  const light = (part) => (part / 255) ** 2.2;
  return 0.2126 * light(red) + 0.7152 * light(green) + 0.0722 * light(blue) > 0.18 ? "#111" : "#fff";
}

const marked = 5;  // pixels that an element must have to be marked

/** The tile, `scale_x` by `scale_y` pixels an element; where these are enough, a cross on each nan
 *  and inf and a dot on what was never written, which no eye must tell by their colours. */
function draw_tile(canvas, tile, by, scale_x, scale_y) {
  const image = new ImageData(tile.width, tile.height);
  for (let i = 0; i < tile.slots.length; ++i) {
    const [red, green, blue] = slot_colour(tile, tile.slots[i], by);
    image.data.set([red, green, blue, 255], 4 * i);
  }
  const small = new OffscreenCanvas(tile.width, tile.height);
  small.getContext("2d").putImageData(image, 0, 0);
  canvas.width = tile.width * scale_x;
  canvas.height = tile.height * scale_y;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (Math.min(scale_x, scale_y) < marked) return;
  for (let i = 0; i < tile.slots.length; ++i) {
    const kind = kind_of(tile, tile.slots[i], by);
    if (!kind) continue;
    const x = (i % tile.width + 0.5) * scale_x, y = (Math.floor(i / tile.width) + 0.5) * scale_y, arm = Math.min(scale_x, scale_y) / 4;
    context.strokeStyle = context.fillStyle = ink_on(palette[kind]);
    context.beginPath();
    if (kind === "unwritten") {
      context.arc(x, y, arm / 2, 0, 7);
      context.fill();
      continue;
    }
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x - arm, y + arm);
    context.lineTo(x + arm, y - arm);
    context.stroke();
  }
}

/** One colour for a tile of which only its largest error is known. */
function draw_blank(canvas, worst, width, height) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.fillStyle = css(worst_colour(worst));
  context.fillRect(0, 0, width, height);
}

/** A frame around the element of `slot`, and a thin one around the others of its lane. */
function mark_slots(canvas, tile, slot, scale_x, scale_y) {
  const context = canvas.getContext("2d"), own = tile.holder(slot);
  context.strokeStyle = css(palette.mark);
  const frame = (at, width) => {
    context.lineWidth = width;
    context.strokeRect(tile.x(at) * scale_x, tile.rows[at] * scale_y, scale_x, scale_y);
  };
  for (let at = 0; own && at < tile.count; ++at) {
    const holder = tile.rows[at] < 0 ? null : tile.holder(at);
    if (holder && holder.warp === own.warp && holder.lane === own.lane) frame(at, 0.5);
  }
  frame(slot, 2);
}

const least = -3, most = 6;  // decades of the bars' scale

/** A bar for each row, at most `width` pixels: the worst of its elements, a line where it is one bound. */
function draw_rows(canvas, tile, by, width, scale_y, current) {
  canvas.width = width;
  canvas.height = tile.height * scale_y;
  const context = canvas.getContext("2d");
  const place = (ratio) => Math.max(0, Math.min(1, (Math.log10(ratio) - least) / (most - least))) * (width - 4);
  for (let row = 0; row < tile.height; ++row) {
    const slot = worst_of_row(tile, row, by);
    if (slot < 0) continue;
    const ratio = kind_of(tile, slot, by) ? Infinity : by === "bits" ? tile.steps(slot) : tile.ratio(slot, by);
    context.fillStyle = css(slot_colour(tile, slot, by));
    context.fillRect(0, row * scale_y, ratio === 0 ? 1 : Math.max(place(ratio), 1), Math.max(scale_y - 1, 1));
  }
  context.fillStyle = css(palette.ink);
  context.fillRect(place(1), 0, 1, canvas.height);
  if (current >= 0) context.fillRect(width - 3, current * scale_y, 3, scale_y);
}

/** How bad a slot is, to be ordered by: what is wrong before what holds, a nan that is wanted
 *  before other right values; −1 where it is not judged. In bits: how far two dumps are apart. */
function severity(tile, slot, by) {
  if (by === "bits") return tile.other ? tile.steps(slot) : -1;
  if (!tile.judged(slot, by)) return -1;
  if (tile.wrong(slot, by)) return 2 + tile.ratio(slot, by);
  return kind_of(tile, slot, by) ? 1.5 : tile.ratio(slot, by);
}

/** The slot of the worst of a row's elements, −1 where none is judged. */
function worst_of_row(tile, row, by) {
  let worst = -1, most_severe = -1;
  for (let x = 0; x < tile.width; ++x) {
    const slot = tile.slot_at(x, row), own = slot < 0 ? -1 : severity(tile, slot, by);
    if (own > most_severe) [worst, most_severe] = [slot, own];
  }
  return worst;
}
