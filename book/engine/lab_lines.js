// The lines that the curves of a laboratory are made of: thinned ones, and a band of several.

const POINTS = 120; // of a loss curve: each is a mean over neighbouring steps

/** The runs of an entry; a model without any is its own. */
export const runsOf = (one) => one.runs ?? [one];

/** Losses [[step, loss]] of a run as at most POINTS points, each the mean of its steps. */
export function thinned(losses, steps) {
  const width = Math.max(1, Math.ceil(steps / POINTS));
  const groups = new Map();
  for (const [step, loss] of losses) {
    const place = Math.ceil(step / width);
    const group = groups.get(place) ?? groups.set(place, { sum: 0, count: 0, step }).get(place);
    group.sum += loss;
    group.count += 1;
    group.step = step;
  }
  return [...groups.values()].map(({ sum, count, step }) => [step, sum / count]);
}

/** The height of a line through points [[x, y]] at x, or null beyond its ends. */
function heightAt(points, x) {
  const k = points.findIndex(([a]) => a >= x);
  if (k < 0) return null;
  const [right, high] = points[k];
  if (right === x) return high;
  if (k === 0) return null;
  const [left, low] = points[k - 1];
  return low + ((high - low) * (x - left)) / (right - left);
}

/** Several lines as one: [[x, least, median, greatest]], each over the lines that reach x. */
export function spread(lines) {
  const places = [...new Set(lines.flatMap((points) => points.map(([x]) => x)))]
    .sort((a, b) => a - b);
  return places.map((x) => {
    const heights = lines.map((points) => heightAt(points, x)).filter((y) => y !== null)
      .sort((a, b) => a - b);
    const middle = heights.length / 2;
    const median = (heights[Math.ceil(middle) - 1] + heights[Math.floor(middle)]) / 2;
    return [x, heights[0], median, heights.at(-1)];
  });
}
