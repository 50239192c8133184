// The tiles that the page holds: who holds which element, its value, and how it was judged.

const sites = new Map(data.sites.map((site) => [site.site, site]));

/** The block that a site's values are counted to: the outputs are those of a row tile, counted to
 *  the first of its blocks, of which there is one per split. */
function home_of(site, block) {
  return site.per_row_tile ? block - block % data.report.tile.splits : block;
}

/** The tile that stands for a site that a block has once is 0. */
function key_of(name, block, tile) {
  const site = sites.get(name);
  return `${name} ${home_of(site, block)} ${site.per_tile ? tile : 0}`;
}

const kept = new Map(data.kept.map((tile) => [key_of(tile.site, tile.block, tile.tile), tile]));
const opened = new Map();

/** Whether a kept tile is of this place, null where it was left out or not traced. */
function tile_at(site, block, tile) {
  const key = key_of(site, block, tile);
  if (!kept.has(key)) return null;
  if (!opened.has(key)) opened.set(key, new Tile(kept.get(key)));
  return opened.get(key);
}

/** The largest error over bound of a tile; −1 where nothing is wrong and a nan is wanted; NaN where
 *  it is not judged, and of bits. */
function worst_of(name, block, tile, by) {
  const site = sites.get(name);
  if (!(by in site.worst)) return NaN;
  site.worst_numbers ??= {};
  const numbers = (site.worst_numbers[by] ??= numbers_of(Float32Array, site.worst[by]));
  const tiles = site.per_tile ? data.tiles[1] - data.tiles[0] : 1;
  const index = data.judged.indexOf(home_of(site, block));
  return index < 0 ? NaN : numbers[index * tiles + (site.per_tile ? tile - data.tiles[0] : 0)];
}

class Tile {
  constructor(stored) {
    this.block = stored.block;
    this.tile = stored.tile;
    this.site = sites.get(stored.site);
    this.type = this.site.type;
    const Words = formats[this.type].size === 4 ? Uint32Array : Uint16Array;
    this.bits = numbers_of(Words, stored.bits);
    this.other = stored.other ? numbers_of(Words, stored.other) : null;
    this.count = this.bits.length;
    this.verdicts = {};
    for (const by of ["local", "chain"]) {
      const verdict = stored[by];
      if (!verdict) continue;
      this.verdicts[by] = {
        error: numbers_of(Float32Array, verdict.error, this.count),
        bound: numbers_of(Float32Array, verdict.bound, this.count),
        wrong: numbers_of(Uint8Array, verdict.wrong, (this.count + 7) >> 3),
      };
    }
    this.place();
  }

  /** Puts the slots into the columns and rows that are drawn: where several lanes hold the same
   *  element, as the row maximum, they stand side by side. */
  place() {
    const {site, count} = this;
    const coordinates = site.space === "registers" ? numbers_of(Int16Array, site.coordinates) : null;
    this.rows = Int16Array.from({length: count}, (_, i) => coordinates ? coordinates[2 * i] : Math.floor(i / site.cols));
    this.cols = Int16Array.from({length: count}, (_, i) => coordinates ? coordinates[2 * i + 1] : i % site.cols);
    const copies = new Map();
    this.copy = new Int16Array(count);
    for (let slot = 0; slot < count; ++slot) {
      if (this.rows[slot] < 0) continue;
      const element = this.rows[slot] * site.cols + this.cols[slot];
      this.copy[slot] = copies.get(element) ?? 0;
      copies.set(element, this.copy[slot] + 1);
    }
    this.copies = Math.max(1, ...copies.values());
    this.width = site.cols * this.copies;
    this.height = site.rows;
    this.slots = new Int32Array(this.width * this.height).fill(-1);
    for (let slot = 0; slot < count; ++slot) {
      if (this.rows[slot] >= 0) this.slots[this.rows[slot] * this.width + this.x(slot)] = slot;
    }
  }

  x(slot) { return this.cols[slot] * this.copies + this.copy[slot]; }
  slot_at(x, y) {
    return x < 0 || y < 0 || x >= this.width || y >= this.height ? -1 : this.slots[y * this.width + x];
  }

  value(slot) { return value_of(this.type, this.bits[slot]); }
  unwritten(slot) { return this.bits[slot] === formats[this.type].poison; }
  judged(slot, by) { return by in this.verdicts && !(this.verdicts[by].bound[slot] < 0); }
  bound(slot, by) { return this.verdicts[by].bound[slot]; }
  wrong(slot, by) { return (this.verdicts[by].wrong[slot >> 3] >> (slot & 7) & 1) === 1; }

  /** What the slot is judged against: kept itself where the value is wrong, else got − want is. */
  want(slot, by) {
    const kept = this.verdicts[by].error[slot];
    return this.wrong(slot, by) ? kept : this.value(slot) - kept;
  }

  error(slot, by) {
    const kept = this.verdicts[by].error[slot];
    if (!this.wrong(slot, by)) return Math.abs(kept);
    const error = Math.abs(this.value(slot) - kept);
    return Number.isNaN(error) ? Infinity : error;
  }

  /** Error in units of the bound. */
  ratio(slot, by) {
    const error = this.error(slot, by);
    if (this.unwritten(slot) || error === Infinity) return Infinity;
    return error === 0 ? 0 : error / this.bound(slot, by);
  }

  /** 0 where both dumps hold the same bits, else how far apart they are; two NaN are the same. */
  steps(slot) {
    const a = this.bits[slot], b = this.other[slot], poison = formats[this.type].poison;
    if (a === b) return 0;
    if (a === poison || b === poison) return Infinity;
    const x = this.value(slot), y = value_of(this.type, b);
    if (Number.isNaN(x) && Number.isNaN(y)) return 0;
    return Number.isNaN(x) || Number.isNaN(y) ? Infinity : steps_between(this.type, a, b);
  }

  /** {warp, lane, reg} of who holds it; reg is null where a thread wrote it to memory; null where
   *  nobody is known. What a stage of the tiles stores is held by the registers that it comes from. */
  holder(slot) {
    const {site} = this;
    if (site.space === "registers") return register_at(site, slot);
    if (site.space === "global") {
      const names = {lse: "m", m_partial: "m", l_partial: "l"};
      const source = site.stage === "combine" ? null : sites.get(names[site.site] ?? "o");
      const held = source ? slot_of(source, this.rows[slot], this.cols[slot]) : undefined;
      return held === undefined ? null : register_at(source, held);
    }
    this.owners ??= numbers_of(Int16Array, site.owners);
    const thread = this.owners[slot] ?? -1;
    return thread < 0 ? null : {warp: thread >> 5, lane: thread & 31, reg: null};
  }
}

function register_at(site, slot) {
  const thread = Math.floor(slot / site.regs);
  return {warp: thread >> 5, lane: thread & 31, reg: slot % site.regs};
}

/** The first slot of a site in registers that stands for an element, undefined where none does. */
function slot_of(site, row, col) {
  if (site.space !== "registers") return undefined;
  if (!site.first_slots) {
    const coordinates = numbers_of(Int16Array, site.coordinates);
    site.first_slots = new Map();
    for (let slot = coordinates.length / 2 - 1; slot >= 0; --slot) {
      site.first_slots.set(coordinates[2 * slot] * site.cols + coordinates[2 * slot + 1], slot);
    }
  }
  return site.first_slots.get(row * site.cols + col);
}
