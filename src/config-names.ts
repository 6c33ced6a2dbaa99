/** Further apart than this, two names have nothing to do with each other. */
const FARTHEST = 8;

/** The one of `names` that takes the fewest single-letter edits to make out of `name`; undefined when none is near. */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let least = FARTHEST + 1;
  for (const candidate of names) {
    const edits = editsBetween(name, candidate);
    if (edits < least) [nearest, least] = [candidate, edits];
  }
  return nearest;
}

/** Levenshtein distance, one row of its table at a time. */
function editsBetween(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 0; row < a.length; row++) {
    const current = [row + 1];
    for (let column = 0; column < b.length; column++) {
      const replaced = above[column]! + (a[row] === b[column] ? 0 : 1);
      current.push(Math.min(replaced, above[column + 1]! + 1, current[column]! + 1));
    }
    above = current;
  }
  return above[b.length]!;
}
