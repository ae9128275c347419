// A model as a file that Python reads too: the safetensors format. In its header stands what a laboratory
// knows of the model, as engine/take.py has it.

const HEAD = 8; // bytes, which say how long the header is
const VERSION = 1;
const NONE = "It is no file of a laboratory's model, or only a part of one.";

/** The bytes of a file. parameters: name, shape and data of each; card: plain JSON. */
export function write(parameters, card) {
  const header = { __metadata__: { laboratory: JSON.stringify({ version: VERSION, ...card }) } };
  let size = 0;
  for (const { name, shape, data } of parameters) {
    header[name] = { dtype: "F32", shape, data_offsets: [size, size += data.byteLength] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = HEAD + HEAD * Math.ceil(text.length / HEAD); // so that the numbers are aligned
  const bytes = new Uint8Array(start + size).fill(32, HEAD, start);
  new DataView(bytes.buffer).setUint32(0, start - HEAD, true);
  bytes.set(text, HEAD);
  for (const { name, data } of parameters) {
    bytes.set(new Uint8Array(data.buffer), start + header[name].data_offsets[0]);
  }
  return bytes;
}

/**
 * What a file holds: its card, tensors and data, of which numbers() makes a model's. Throws a sentence for
 * the reader where it is none of ours.
 * @param {ArrayBuffer} bytes
 */
export function read(bytes) {
  try {
    const start = HEAD + Number(new DataView(bytes).getBigUint64(0, true));
    const { __metadata__: { laboratory }, ...tensors } = JSON.parse(new TextDecoder().decode(
      bytes.slice(HEAD, start)));
    const { settings: { ...settings }, design: { ...design }, ...card } = JSON.parse(laboratory);
    return { ...card, settings, design, tensors, data: bytes.slice(start) };
  } catch {
    throw new Error(NONE);
  }
}

/** All numbers of a file, in the order of these parameters; throws where it has others. */
export function numbers({ version, step, tensors, data }, parameters) {
  if (version !== VERSION || !(step >= 0)) throw new Error("Another version of this book wrote it.");
  let at = 0;
  const all = new Float32Array(parameters.reduce((sum, one) => sum + one.data.length, 0));
  const known = parameters.map(({ name }) => name);
  for (const name of new Set([...known, ...Object.keys(tensors)])) {
    const { dtype, shape, data_offsets: place } = tensors[name] ?? {};
    const wanted = parameters[known.indexOf(name)];
    if (dtype !== "F32" || String(shape) !== String(wanted?.shape)) {
      throw new Error(`Its parameters are not those of its settings: ${name}.`);
    }
    const [from, to] = [].concat(place);
    const part = data.slice(from, to);
    if (!(from >= 0) || part.byteLength !== wanted.data.byteLength) throw new Error(NONE);
    all.set(new Float32Array(part), at);
    at += wanted.data.length;
  }
  if (!all.every(Number.isFinite)) throw new Error("It has numbers that are not finite.");
  return all;
}
