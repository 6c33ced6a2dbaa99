import { Type } from 'typebox';

/** A queue's name, or the beginning of names and `*`. */
export const QueuePattern = Type.String({
  pattern: '^([A-Za-z0-9][A-Za-z0-9._-]{0,79}|([A-Za-z0-9][A-Za-z0-9._-]{0,78})?[*])$',
  'x-pattern-hint': 'the name of a queue, or the beginning of names with * at its end',
});

/** Which queues a key is bound to. */
export class QueuePatterns {
  readonly names: readonly string[];
  /** What stands before a `*`. */
  readonly prefixes: readonly string[];

  /** @param patterns each of the form of `QueuePattern` */
  constructor(readonly patterns: readonly string[]) {
    this.names = patterns.filter((pattern) => !pattern.endsWith('*'));
    this.prefixes = patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1));
  }

  /** Whether a queue of that name is among them. */
  allows(queue: string): boolean {
    return this.names.includes(queue) || this.prefixes.some((prefix) => queue.startsWith(prefix));
  }

  /** The first of these patterns that stands for a queue which is not among ours. */
  beyond(patterns: readonly string[]): string | undefined {
    return patterns.find((pattern) =>
      pattern.endsWith('*')
        ? !this.prefixes.some((prefix) => pattern.slice(0, -1).startsWith(prefix))
        : !this.allows(pattern),
    );
  }
}
