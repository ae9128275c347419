// How the next token is drawn from logits: temperature, then top-k, then top-p, as lib.decoding has it.
import * as math from "../widgets/js/math.js";

const SLACK = 1e-6; // of a sum of probabilities that rounding may leave below p

/**
 * The probabilities of a row of logits; what top-k or top-p leaves out gets 0. k: how many stay, 0 for
 * all; p: the probability of the nucleus, 1 for all.
 */
export function probabilities(logits, { temperature, k, p }) {
  const warm = Array.from(logits, (logit) => logit / temperature);
  const order = warm.map((_, i) => i).sort((a, b) => warm[b] - warm[a] || a - b);
  const kept = order.slice(0, k || order.length);
  const among = math.softmax(kept.map((i) => warm[i]));
  const enough = p === 1 ? Infinity : p - SLACK;
  let [sum, most] = [among[0], 1];
  while (most < kept.length && sum < enough) {
    sum += among[most];
    most += 1;
  }
  const found = warm.map(() => 0);
  for (let n = 0; n < most; n += 1) found[kept[n]] = among[n] / sum;
  return found;
}

/** An index, as likely as its probability says; uniform: a number from 0 to 1, 1 excluded. */
export function drawn(chances, uniform) {
  let left = uniform;
  let last = 0;
  for (let i = 0; i < chances.length; i += 1) {
    if (chances[i] > 0) {
      last = i;
      left -= chances[i];
      if (left < 0) break;
    }
  }
  return last;
}
