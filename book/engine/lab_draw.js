// When a panel is drawn: at most ten times a second while its model trains.

export const EVERY = 100; // milliseconds between two drawings, at least
const REST = 6; // times what a drawing takes passes before the next one, so that training goes on
const MOST = 3000; // milliseconds: two frames are far apart also where a reader was in another tab

/**
 * now() draws, as where a button changes its name: who presses it again means the new one. later()
 * does so in a moment, once for several messages, and seldom where drawing is slow; never() takes that
 * back. every() is how many milliseconds pass, at least.
 *
 * Layout and painting count as well: they can take ten times as long as the script did.
 */
export function drawing(draw, every = () => EVERY) {
  let [timer, drawn, cost] = [null, 0, 0];

  function never() {
    clearTimeout(timer);
    timer = null;
  }

  function now() {
    never();
    const begun = performance.now();
    draw();
    drawn = performance.now();
    const script = drawn - begun;
    cost = Math.max(cost, script); // until it is known how long this one takes in all
    requestAnimationFrame(() => {
      const frame = performance.now();
      requestAnimationFrame(() => { // from one frame to the next it was laid out and painted
        drawn = performance.now();
        cost = script + drawn - frame;
      });
    });
  }

  const rest = () => Math.max(every(), Math.min(MOST, REST * cost)) - (performance.now() - drawn);

  function later() {
    if (timer !== null || document.hidden) return;
    timer = setTimeout(() => {
      timer = null;
      if (rest() > 0) later(); // the cost has become known meanwhile
      else now();
    }, Math.max(0, rest()));
  }
  return { now, later, never };
}
