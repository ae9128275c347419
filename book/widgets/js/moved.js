// Vectors that the reader moved, as text that fits an address: "red=1,2;fox=0,0.5".

export const pack = (rows) =>
  Object.entries(rows).map(([name, row]) => `${name}=${row.join(",")}`).join(";");

/**
 * The same, read again: rows by name, of the sizes that the rows in `known` have. An error for a
 * name that is not there, another size, and a number beyond the limit.
 */
export function unpack(text, known, limit) {
  const parts = text === "" ? [] : text.split(";");
  return Object.fromEntries(parts.map((part) => {
    const [name, numbers = "", ...more] = part.split("=");
    const row = numbers.split(",");
    const fits = Object.hasOwn(known, name) && !more.length && row.length === known[name].length
      && row.every((entry) => entry.trim() !== "" && Math.abs(entry) <= limit);
    if (!fits) throw new Error(`expected a token, "=" and its numbers, got "${part}"`);
    return [name, row.map(Number)];
  }));
}
