// Numbers in English words: what the translators of numbers learn, and what their answers are held to.
export const ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
  + "fifteen sixteen seventeen eighteen nineteen").split(" ");
export const TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");

/** A number from 0 to 999,999 in English words. */
export function inWords(n) {
  const behind = (rest, and) => (rest ? [...(and ? ["and"] : []), ...inWords(rest)] : []);
  if (n < 20) return [ONES[n]];
  if (n < 100) return [TENS[Math.floor(n / 10) - 2], ...behind(n % 10, false)];
  if (n < 1000) return [ONES[Math.floor(n / 100)], "hundred", ...behind(n % 100, true)];
  return [...inWords(Math.floor(n / 1000)), "thousand", ...behind(n % 1000, n % 1000 < 100)];
}
