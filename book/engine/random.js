// Random numbers for a run: the same ones for the same seed, in every browser to the last bit.
import * as math from "../widgets/js/math.js";

/**
 * The natural logarithm of x, 0 < x < 1, from + - * / alone. IEEE 754 fixes their results, while
 * each browser may round Math.log in its own way.
 */
function ln(x) {
  let [fraction, halvings] = [x, 0];
  for (; fraction < 0.75; halvings += 1) fraction *= 2;
  const z = (fraction - 1) / (fraction + 1); // ln x = 2 (z + z^3 / 3 + z^5 / 5 + ...)
  let sum = 0;
  for (let [n, power] = [1, z]; n < 25; n += 2, power *= z * z) sum += power / n;
  return 2 * sum - halvings * Math.LN2;
}

/** A whole number from 0 to 2^32 - 1 for a text. Source: Fowler, Noll and Vo, FNV-1a. */
export function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** A generator of random numbers, fixed by its seed: a whole number from 0 to 2^32 - 1. */
export function makeRandom(seed) {
  const uniform = math.uniform(seed);
  let second = null; // normal numbers come in pairs

  /** A whole number from 0 to n - 1. */
  const integer = (n) => Math.floor(uniform() * n);

  /** A standard normal number. Source: Marsaglia and Bray 1964, the polar method. */
  function normal() {
    const kept = second;
    second = null;
    if (kept !== null) return kept;
    let u; let v; let s; // a point within the unit circle, and the square of its distance
    do {
      [u, v] = [2 * uniform() - 1, 2 * uniform() - 1];
      s = u * u + v * v;
    } while (s >= 1 || s === 0);
    const stretch = Math.sqrt((-2 * ln(s)) / s);
    second = v * stretch;
    return u * stretch;
  }

  /** The same entries in a random order, in a new array. Source: Fisher and Yates. */
  function shuffle(list) {
    const mixed = [...list];
    for (let i = mixed.length - 1; i > 0; i -= 1) {
      const j = integer(i + 1);
      [mixed[i], mixed[j]] = [mixed[j], mixed[i]];
    }
    return mixed;
  }

  /** n entries of the list, no place twice. */
  const sample = (list, n) => shuffle(list).slice(0, n);

  return { uniform, integer, normal, shuffle, sample };
}
