// Walking through a map cell by cell: one stop of the Tab key, arrow keys inside, a pointer too.

const PAGE = 8; // rows that Page Up and Page Down move

/** A place kept within the size. */
const within = (place, size) =>
  place.map((k, axis) => Math.max(0, Math.min(size[axis] - 1, k)));

/**
 * Where a key leads from a place, or undefined.
 * @param {KeyboardEvent} event
 * @param {number[]} place
 * @param {number[]} size
 */
function target({ key, ctrlKey, metaKey }, [i, j], [rows, columns]) {
  const far = ctrlKey || metaKey;
  return {
    ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    PageUp: [i - PAGE, j], PageDown: [i + PAGE, j],
    Home: [far ? 0 : i, 0], End: [far ? rows - 1 : i, columns - 1],
  }[key];
}

/**
 * Makes the cells within an element walkable. Options: size() -> [rows, columns];
 * stand(i, j, focus): let the Tab key reach this cell and no other, and focus it if asked to;
 * placeOf(event) -> [i, j], or null beside the cells; and what is to happen:
 * onRead(i, j, byKey) when the pointer or the focus is on a cell, onRead() when it is on none;
 * onMove(i, j) when the focus comes; onPick(i, j) for a click, Space and Enter.
 * Returns { home(i, j), refresh() }: home is where Escape leads, and where the Tab key arrives.
 * @param {any} element
 * @param {Record<string, any>} options
 */
export function through(element, { size, stand, placeOf, onRead, onMove, onPick }) {
  let at = [0, 0];
  let home = null;
  let hovered = null;
  const inside = () => element.matches(":focus-within");

  function go(place, focus) {
    at = within(place, size());
    stand(...at, focus);
  }

  element.addEventListener("keydown", (event) => {
    const place = target(event, at, size());
    if (place) go(place, true);
    else if (onPick && [" ", "Enter"].includes(event.key)) onPick(...at);
    else if (event.key === "Escape" && home) {
      go([home[0] ?? at[0], home[1] ?? at[1]], true);
      onRead?.();
    } else return;
    event.preventDefault();
  });
  element.addEventListener("focusin", (event) => {
    const place = placeOf(event);
    if (!place) return;
    if (place.some((k, axis) => k !== at[axis])) go(place);
    onMove?.(...place);
    onRead?.(...place, true);
  });
  element.addEventListener("focusout", (event) => {
    if (!element.contains(event.relatedTarget)) onRead?.();
  });
  element.addEventListener("mousemove", (event) => {
    const place = placeOf(event);
    if (!place || String(place) === hovered) return;
    hovered = String(place);
    onRead?.(...place);
  });
  element.addEventListener("mouseleave", () => {
    hovered = null;
    if (inside()) onRead?.(...at);
    else onRead?.();
  });
  element.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (!place) return;
    go(place, true);
    onPick?.(...place);
  });

  return {
    home(...place) {
      home = place;
      if (!inside()) go([home[0] ?? at[0], home[1] ?? at[1]]);
    },
    refresh: () => go(at),
  };
}
