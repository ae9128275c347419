// A model's numbers as Float32Arrays, from the bytes in which they came: see widgets.packing and,
// for a header with `bits`, widgets.rounding.

// Python's base 85: five of these are four bytes, the highest first.
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/** The bytes of a model's text, as a DataView. */
export function fromText(text, { bits }) {
  if (!bits) return new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const value = new Uint8Array(128);
  [...DIGITS].forEach((digit, i) => { value[digit.charCodeAt(0)] = i; });
  const view = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let at = 0; at < text.length; at += 5) {
    let number = 0;
    for (let i = at; i < at + 5; i += 1) number = number * 85 + value[text.charCodeAt(i)];
    view.setUint32((at / 5) * 4, number);
  }
  return view;
}

/** Half-precision numbers as they lie in a DataView, as a Float32Array. */
function fromHalves(view) {
  const numbers = new Float32Array(view.byteLength / 2);
  for (let i = 0; i < numbers.length; i += 1) {
    const bits = view.getUint16(2 * i, true);
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    numbers[i] = bits >> 15 ? -size : size;
  }
  return numbers;
}

const product = (shape) => shape.reduce((all, n) => all * n, 1);

/** By name, all in half precision, one after the other. */
function halves({ tensors }, data) {
  const numbers = fromHalves(data);
  const found = new Map();
  let at = 0;
  for (const [name, shape] of tensors) {
    found.set(name, numbers.subarray(at, at + product(shape)));
    at += product(shape);
  }
  if (at !== numbers.length) throw new Error(`expected ${at} weights, got ${numbers.length}`);
  return found;
}

/** By name: matrices are multiples of a scale for each row, where they have 8 bits. */
function rounded({ bits, tensors, same }, data) {
  const found = new Map();
  const narrow = [];
  let at = 0;
  const read = (count) => {
    const numbers = new Float32Array(count);
    for (let i = 0; i < count; i += 1, at += 4) numbers[i] = data.getFloat32(at, true);
    return numbers;
  };
  for (const [name, shape] of tensors) {
    if (bits === 8 && shape.length === 2) narrow.push([name, shape, read(shape[0])]);
    else found.set(name, read(product(shape)));
  }
  for (const [name, [rows, columns], scales] of narrow) {
    const numbers = new Float32Array(rows * columns);
    for (let i = 0; i < numbers.length; i += 1, at += 1) {
      numbers[i] = data.getInt8(at) * scales[Math.floor(i / columns)];
    }
    found.set(name, numbers);
  }
  if (Math.ceil(at / 4) * 4 !== data.byteLength) {
    throw new Error(`expected ${at} bytes of weights, got ${data.byteLength}`);
  }
  for (const [name, first] of same) found.set(name, found.get(first));
  return found;
}

export const read = (header, data) => (header.bits ? rounded : halves)(header, data);
