// What counting alone predicts: n-grams of characters, smoothed by Witten and Bell's method.

const MOST = 6;

/**
 * The mean loss on the rows `held` of n-grams for n = 1, ..., 6, counted in the rows `taught`. Of each
 * row the first token is context alone. In a context that was seen N times, before T different tokens,
 * p_n(x) = (count of x + T p_(n-1)(x)) / (N + T), with 1 / classes below the first. Source: Witten and
 * Bell 1991.
 */
export function countedLosses(taught, held, classes) {
  const tables = Array.from({ length: MOST }, () => new Map());
  const each = (rows, visit) => rows.forEach((row) => {
    const text = Array.from(row, (token) => String.fromCharCode(token)).join("");
    for (let i = 1; i < row.length; i += 1) visit(text, i, row[i]);
  });
  each(taught, (text, i, token) => {
    for (let k = 0; k < MOST && k <= i; k += 1) {
      const context = text.slice(i - k, i);
      let found = tables[k].get(context);
      if (!found) tables[k].set(context, found = { all: 0, each: new Map() });
      found.all += 1;
      found.each.set(token, (found.each.get(token) ?? 0) + 1);
    }
  });
  const losses = tables.map(() => 0);
  let count = 0;
  each(held, (text, i, token) => {
    let [chance, known] = [1 / classes, true];
    for (let k = 0; k < MOST; k += 1) {
      const found = known && k <= i ? tables[k].get(text.slice(i - k, i)) : null;
      known = Boolean(found);
      if (found) {
        const kinds = found.each.size;
        chance = ((found.each.get(token) ?? 0) + kinds * chance) / (found.all + kinds);
      }
      losses[k] -= Math.log(chance);
    }
    count += 1;
  });
  return losses.map((loss) => loss / count);
}
