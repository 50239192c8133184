// From the page's data to numbers. Nothing is judged here: errors, bounds and verdicts are the
// program's.

const data = JSON.parse(document.getElementById("data").textContent);

function bytes_of(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

/** `base64` as numbers of `Type`; null, which stands for nothing but zeros, as `count` of them. */
function numbers_of(Type, base64, count) {
  return base64 === null ? new Type(count) : new Type(bytes_of(base64).buffer);
}

const formats = {
  f32: {size: 4, poison: 0xffb1ffb1},
  f16: {size: 2, poison: 0xffb1, fraction: 10, bias: 15},
  bf16: {size: 2, poison: 0xffb1, fraction: 7, bias: 127},
};

const word = new DataView(new ArrayBuffer(4));

/** The value of the bits of one element, exactly. */
function value_of(type, bits) {
  if (type === "f32") {
    word.setUint32(0, bits);
    return word.getFloat32(0);
  }
  const {fraction, bias} = formats[type];
  const sign = bits >> 15 ? -1 : 1, field = (bits & 0x7fff) >> fraction;
  const steps = bits & ((1 << fraction) - 1), one = 2 ** fraction;
  if (field === 2 * bias + 1) return steps ? NaN : sign * Infinity;
  return sign * (field ? (1 + steps / one) * 2 ** (field - bias) : (steps / one) * 2 ** (1 - bias));
}

/** How many representable numbers lie between two, as bits of one type. */
function steps_between(type, a, b) {
  const top = type === "f32" ? 0x80000000 : 0x8000;
  const order = (bits) => (bits >= top ? top - bits : bits);
  return Math.abs(order(a) - order(b));
}

function hex(type, bits) {
  return "0x" + bits.toString(16).padStart(2 * formats[type].size, "0");
}

/** A number as the program writes it: `digits` significant, "inf", "nan". */
function number_text(x, digits) {
  if (typeof x === "string") return x;  // JSON has no inf and nan
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x < 0 ? "-inf" : "inf";
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const text = x.toPrecision(digits);
  const [mantissa, exponent] = text.split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  if (exponent === undefined && Math.abs(x) >= 1e-4) return short;
  const [m, e] = x.toExponential(digits - 1).split("e");
  return (m.includes(".") ? m.replace(/\.?0+$/, "") : m) + "e" + e;
}
