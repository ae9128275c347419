// An attention map as a worker sends it, { heads, queries, keys, data }, as rows of numbers.

/** A map whose entries are those of `entry(query, key)`. */
const rows = ({ queries, keys }, entry) => Array.from({ length: queries }, (_, i) =>
  Array.from({ length: keys }, (__, j) => entry(i, j)));

/** The map of one head, counted from 0. */
export const headOf = (map, k) =>
  rows(map, (i, j) => map.data[(k * map.queries + i) * map.keys + j]);

/** The mean over all heads. */
export function meanOf(map) {
  const heads = Array.from({ length: map.heads }, (_, k) => headOf(map, k));
  return rows(map, (i, j) => heads.reduce((sum, head) => sum + head[i][j], 0) / map.heads);
}
