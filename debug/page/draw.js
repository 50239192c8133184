// Colours, heat maps, bars.

/** The colours of the page's style, as [red, green, blue]; read again when light turns dark. */
let palette = {};
function read_palette() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["holds0", "holds1", "wrong0", "wrong1", "special", "unwritten", "none", "mark", "ink", "line"]) {
    const text = style.getPropertyValue("--" + name).trim();
    const wide = text.length === 4 ? text.replace(/[0-9a-f]/gi, "$&$&") : text;
    palette[name] = [1, 3, 5].map((i) => parseInt(wide.slice(i, i + 2), 16));
  }
}

function mix(from, to, share) {
  return from.map((x, i) => Math.round(x + (to[i] - x) * share));
}

/** The colour of an error of `ratio` bounds: one scale where it holds, up to 1, another one, the
 *  logarithm up to a million bounds, where it does not. */
function ratio_colour(ratio, wrong) {
  if (Number.isNaN(ratio)) return palette.none;
  if (!wrong) return mix(palette.holds0, palette.holds1, Math.min(ratio, 1));
  if (ratio === Infinity) return palette.wrong1;
  return mix(palette.wrong0, palette.wrong1, Math.min(Math.log10(Math.max(ratio, 1)) / 6, 1));
}

function slot_colour(tile, slot, by) {
  if (slot < 0) return palette.none;
  if (by === "bits") {
    const steps = tile.other ? tile.steps(slot) : NaN;
    return ratio_colour(steps, steps > 0);
  }
  const padding = by in tile.verdicts && !tile.judged(slot, by);
  if (tile.unwritten(slot) && !padding) return palette.unwritten;
  if (!tile.judged(slot, by)) return palette.none;
  const wrong = tile.wrong(slot, by);
  if (wrong && !Number.isFinite(tile.value(slot))) return palette.special;
  return ratio_colour(tile.ratio(slot, by), wrong);
}

function css(colour) { return `rgb(${colour.join()})`; }

/** Black or white, whichever is read better on `colour`. */
function ink_on([red, green, blue]) {
  return 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "#111" : "#fff";
}

/** The tile, `scale_x` by `scale_y` pixels an element. */
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
}

/** One colour for a tile of which only its largest error is known. */
function draw_blank(canvas, worst, width, height) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.fillStyle = css(ratio_colour(worst, worst > 1));
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

const bar_width = 150, least = -3, most = 6;  // decades of the bars' scale

/** A bar for each row: the largest error of its elements, a line where it is one bound. */
function draw_rows(canvas, tile, by, scale_y, current) {
  canvas.width = bar_width;
  canvas.height = tile.height * scale_y;
  const context = canvas.getContext("2d");
  const place = (ratio) => Math.max(0, Math.min(1, (Math.log10(ratio) - least) / (most - least))) * (bar_width - 4);
  for (let row = 0; row < tile.height; ++row) {
    const {ratio, wrong} = row_error(tile, row, by);
    if (Number.isNaN(ratio)) continue;
    context.fillStyle = css(ratio_colour(ratio, wrong));
    context.fillRect(0, row * scale_y, ratio === 0 ? 1 : Math.max(place(ratio), 1), Math.max(scale_y - 1, 1));
  }
  context.fillStyle = css(palette.ink);
  context.fillRect(place(1), 0, 1, canvas.height);
  if (current >= 0) context.fillRect(bar_width - 3, current * scale_y, 3, scale_y);
}

/** The largest error of a row's elements over their bounds (or how far two dumps are apart). */
function row_error(tile, row, by) {
  let ratio = NaN, wrong = false;
  for (let x = 0; x < tile.width; ++x) {
    const slot = tile.slot_at(x, row);
    if (slot < 0 || (by === "bits" ? !tile.other : !tile.judged(slot, by))) continue;
    const own = by === "bits" ? tile.steps(slot) : tile.ratio(slot, by);
    wrong ||= by === "bits" ? own > 0 : tile.wrong(slot, by);
    if (!(own <= ratio)) ratio = own;
  }
  return {ratio, wrong};
}
