// A curve of losses, thinned.

const POINTS = 120; // of a curve: each is a mean over neighbouring steps

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
