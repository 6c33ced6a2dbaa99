/** Has a stream drained a little before its connection is too old; streams that were opened together are not asked to go together. */
export function ageing(stream: { drain(): void }, connectionSeconds: number): NodeJS.Timeout | undefined {
  if (connectionSeconds === 0) return undefined;
  return setTimeout(() => stream.drain(), connectionSeconds * 1_000 * (0.7 + Math.random() * 0.2)).unref();
}
