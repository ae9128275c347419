// Adam as torch has it, with a schedule for its rate and a limit for the length of the gradient.
import { oneOf } from "./tensors.js";

const SCHEDULES = new Map(Object.entries({
  constant: () => 1,
  linear: (done) => 1 - 0.99 * done, // torch's LinearLR from 1 to 0.01
  cosine: (done) => (1 + Math.cos(Math.PI * done)) / 2,
}));

/** The factor on the rate: it rises over `warmup` steps, then falls as its schedule says. */
function rateFactor({ schedule = "constant", steps, warmup = 0 }) {
  const fall = oneOf(SCHEDULES, "a schedule", schedule);
  if (warmup >= steps) {
    throw new Error(`expected fewer steps of warm-up than ${steps}, got ${warmup}`);
  }
  return (step) => (step < warmup ? (step + 1) / warmup
    : fall(Math.min(1, (step - warmup) / (steps - warmup))));
}

/**
 * Adam for the parameters of a model, made before its first step. options: { steps, lr, schedule,
 * warmup, clip (null: no limit), betas, eps }. Source: Kingma and Ba 2015; Pascanu et al. 2013.
 */
export function makeAdam(parameters, options) {
  const { lr, clip = null, betas: [beta1, beta2] = [0.9, 0.999], eps = 1e-8 } = options;
  const factor = rateFactor(options);
  const [{ engine, at, gradAt }] = parameters;
  const { kernels, memory } = engine;
  const count = parameters.reduce((sum, { size }) => sum + size, 0);
  memory.reset();
  const [means, squares] = [memory.zeros(count), memory.zeros(count)];
  memory.keep();

  /** Step n = 0, 1, ...: change the parameters against their gradients. */
  function step(n) {
    const rate = lr * factor(n);
    const norm = Math.sqrt(kernels.sum_of_squares(gradAt, count));
    const shrink = clip === null ? 1 : Math.min(1, clip / (norm + 1e-6));
    // The running means begin at 0: each is divided by the sum of its weights so far.
    const [seen1, seen2] = [1 - beta1 ** (n + 1), 1 - beta2 ** (n + 1)];
    kernels.adam(at, gradAt, means, squares, count, shrink, beta1, beta2, rate / seen1,
      Math.sqrt(seen2), eps);
    return { lr: rate, norm };
  }

  return { step };
}
