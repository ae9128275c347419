// A model as a file that Python reads too: the safetensors format. In its header stands what a laboratory
// knows of the model, as engine/take.py has it.

const HEAD = 8; // bytes, which say how long the header is
const MOST = 2 ** 20; // bytes of a header
const VERSION = 1;
const NONE = "It is no safetensors file, or only a part of one.";
const FOREIGN = "It holds no model of a laboratory. In a notebook, save_model of engine.take writes one.";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isStep = (n) => Number.isInteger(n) && n >= 0 && n <= 1_000_000;

/** The bytes of a file. parameters: name, shape and data of each; card: plain JSON. */
export function write(parameters, card) {
  const header = { __metadata__: { laboratory: JSON.stringify({ version: VERSION, ...card }) } };
  let size = 0;
  for (const { name, shape, data: { byteLength } } of parameters) {
    header[name] = { dtype: "F32", shape, data_offsets: [size, size + byteLength] };
    size += byteLength;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = HEAD + HEAD * Math.ceil(text.length / HEAD); // so that the numbers are aligned
  const bytes = new Uint8Array(start + size).fill(32, HEAD, start);
  new DataView(bytes.buffer).setUint32(0, start - HEAD, true);
  bytes.set(text, HEAD);
  for (const { name, data } of parameters) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
      start + header[name].data_offsets[0]);
  }
  return bytes;
}

function parsed(make) {
  try {
    const value = make();
    if (isObject(value)) return value;
  } catch { /* it is no JSON, or ends too early */ }
  throw new Error(NONE);
}

/**
 * What a file holds: { card, tensors, data }, of which numbers() makes a model's. Throws a sentence for the
 * reader where it is none of ours.
 * @param {ArrayBuffer} bytes
 */
export function read(bytes) {
  const size = bytes.byteLength < HEAD ? MOST : Number(new DataView(bytes).getBigUint64(0, true));
  if (size >= MOST) throw new Error(NONE);
  const { __metadata__: about, ...tensors } = parsed(() =>
    JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(bytes, HEAD, size))));
  let card = null;
  try { card = JSON.parse(about.laboratory); } catch { /* another program's file */ }
  if (!isObject(card) || typeof card.task !== "string" || ![card.settings, card.design].every(isObject)
    || !isStep(card.step)) throw new Error(FOREIGN);
  if (card.version !== VERSION) throw new Error("Another version of this book has written it.");
  return { card, tensors, data: bytes.slice(HEAD + size) };
}

/** All numbers of a file, in the order of these parameters; throws where it has others. */
export function numbers({ tensors, data }, parameters) {
  const other = (what) => new Error(`Its parameters are not those of its settings: ${what}.`);
  const stranger = Object.keys(tensors).find((key) => parameters.every(({ name }) => name !== key));
  if (stranger !== undefined) throw other(`${stranger} is too much`);
  let at = 0;
  const all = new Float32Array(parameters.reduce((sum, one) => sum + one.data.length, 0));
  for (const { name, shape, data: { length, byteLength } } of parameters) {
    if (!Object.hasOwn(tensors, name)) throw other(`${name} is missing`);
    const { dtype, shape: its, data_offsets: place } = tensors[name] ?? {};
    const [from, to] = Array.isArray(place) ? place : [];
    if (dtype !== "F32" || String(its) !== String(shape)) {
      throw other(`${name} is ${dtype} of shape ${its}, not F32 of shape ${shape}`);
    }
    if (!isStep(from / 4) || to - from !== byteLength || to > data.byteLength) throw new Error(NONE);
    all.set(new Float32Array(data.slice(from, to)), at);
    at += length;
  }
  if (!all.every(Number.isFinite)) throw new Error("It has numbers that are not finite.");
  return all;
}
