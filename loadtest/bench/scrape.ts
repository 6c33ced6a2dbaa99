/**
 * A quantile, in seconds, of what a histogram of `/metrics` has recorded between two scrapes, over all series whose labels
 * hold `label`: the upper edge of its bucket. NaN when it has recorded nothing.
 */
export function scrapedQuantile(
  scrapes: { readonly before: string; readonly after: string },
  histogram: { readonly name: string; readonly label: string },
  q: number,
): number {
  const before = bucketsOf(scrapes.before, histogram);
  const grown = [...bucketsOf(scrapes.after, histogram)]
    .map(([edge, count]) => ({ edge, count: count - (before.get(edge) ?? 0) }))
    .sort((a, b) => a.edge - b.edge);
  const total = grown.at(-1)?.count ?? 0;
  if (total === 0) return Number.NaN;
  return grown.find(({ count }) => count >= q * total)!.edge;
}

function bucketsOf(text: string, { name, label }: { readonly name: string; readonly label: string }) {
  const buckets = new Map<number, number>();
  for (const line of text.split('\n')) {
    if (!line.startsWith(`${name}_bucket{`) || !line.includes(label)) continue;
    const edge = /le="([^"]+)"/.exec(line)![1]!;
    const key = edge === '+Inf' ? Number.POSITIVE_INFINITY : Number(edge);
    buckets.set(key, (buckets.get(key) ?? 0) + Number(line.slice(line.lastIndexOf(' ') + 1)));
  }
  return buckets;
}
