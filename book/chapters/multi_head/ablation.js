// Heads that are switched off: what they give instead, and how well the model translates without.
import * as math from "../../widgets/js/math.js";
import * as transformer from "../../widgets/js/transformer.js";

const BUDGET = 10; // milliseconds of work before the page may do something else

/** The codes in a text such as "e2.3_c1.1", which must be among `heads`. */
export function parse(text, heads) {
  const codes = text ? text.split("_") : [];
  if (!codes.every((code) => heads.includes(code))) throw new Error("a head that is not there");
  return new Set(codes);
}

/**
 * A hook for the model (see `edit` in transformer.js) that replaces the outputs of some heads.
 * Args: off, their codes; layers as { code, name }; means, by layer, all heads side by side:
 * what they give instead, or null for zeros.
 */
export function editor(off, layers, nHeads, means) {
  const cuts = new Map();
  for (const { code, name } of layers) {
    const heads = Array.from({ length: nHeads }, (_, h) => h)
      .filter((h) => off.has(`${code}.${h + 1}`));
    if (heads.length) cuts.set(name, { heads, mean: means?.[code] });
  }
  return (name, output) => {
    const cut = cuts.get(name);
    if (!cut) return;
    const width = output.length / nHeads;
    for (const h of cut.heads) {
      for (let i = h * width; i < (h + 1) * width; i += 1) output[i] = cut.mean?.[i] ?? 0;
    }
  };
}

/** The tokens that the model says to the words of a source; <eos> is the last, if it ends. */
export const translate = (net, words, longest, edit) => transformer.greedy(net,
  net.encode(words), longest, { edit }).map((id) => net.target[id]);

/**
 * What a head attends to in a layer { code, name } while the model translates with all heads on.
 * Returns { rows, columns, weights }: queries, keys, and null where a query may not attend.
 */
export function attentionMap(net, words, longest, { code, name }, head) {
  const found = [];
  const note = (step, before, after, seen) => {
    if (step === name) found.push(...seen.maps.map((heads) => Array.from(heads[head])));
  };
  const ids = net.encode(words);
  const said = transformer.greedy(net, ids, longest, { note }).map((id) => net.target[id]);
  const [source, read] = [[...words, "<eos>"], ["<bos>", ...said.slice(0, -1)]];
  const [rows, columns] = { e: [source, source], d: [read, read], c: [read, source] }[code[0]];
  const weights = found.map((row) => columns.map((_, j) => row[j] ?? null));
  return { rows, columns, weights };
}

/**
 * One pair's translation, in small pieces of work, of which the last returns { said, exact, right,
 * total }. A token is right if the model predicts it after the right ones before it; <eos> counts.
 */
export function* score(net, [source, target], longest, edit) {
  const ids = net.encode(source);
  const wanted = [...target.map((word) => net.target.indexOf(word)), transformer.EOS];
  const said = [];
  for (const id of transformer.tokens(net, ids, longest, { edit })) {
    said.push(id);
    yield;
  }
  const exact = said.length === wanted.length && said.every((id, i) => id === wanted[i]);
  let right = exact ? wanted.length : 0; // then it has read the right tokens already
  const choose = (logits, n) => {
    right += math.argmax(logits) === wanted[n] ? 1 : 0;
    return wanted[n];
  };
  if (!exact) {
    yield* transformer.tokens(net, ids, wanted.length, { edit, choose });
  }
  return { said: said.map((id) => net.target[id]), exact, right, total: wanted.length };
}

/** The sum of several scores. */
export const total = (scores) => ({
  sentences: scores.length,
  exact: scores.filter(({ exact }) => exact).length,
  tokens: scores.reduce((sum, { right }) => sum + right, 0)
    / scores.reduce((sum, one) => sum + one.total, 0),
});

/**
 * Work in slices, so that the page stays alive. next() -> the next piece of work, a function, or
 * null when all is done; after(done) is called after each slice.
 * Returns { wake(), stop() }: wake when there may be something to do again.
 */
export function worker(next, after) {
  let timer = null;
  function slice() {
    timer = null;
    const end = performance.now() + BUDGET;
    let work = next();
    while (work) {
      work();
      if (performance.now() >= end) break;
      work = next();
    }
    after(!work);
    if (work) wake();
  }
  function wake() {
    timer ??= setTimeout(slice);
  }
  return { wake, stop: () => { clearTimeout(timer); timer = null; } };
}

/** Which tokens of a translation stand out from the right one: [[token, differs]], and what it
 * lacks; by the longest common subsequence. */
export function compare(said, right) {
  const table = Array.from({ length: said.length + 1 }, () => new Array(right.length + 1).fill(0));
  for (let i = said.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      table[i][j] = said[i] === right[j] ? table[i + 1][j + 1] + 1
        : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const [tokens, missing] = [[], []];
  let [i, j] = [0, 0];
  while (i < said.length || j < right.length) {
    if (i < said.length && said[i] === right[j]) {
      tokens.push([said[i], false]);
      [i, j] = [i + 1, j + 1];
    } else if (i < said.length && (j === right.length || table[i + 1][j] >= table[i][j + 1])) {
      tokens.push([said[i], true]);
      i += 1;
    } else {
      missing.push(right[j]);
      j += 1;
    }
  }
  return { tokens, missing };
}
