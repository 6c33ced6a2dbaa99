/** Numbers that a seed decides: the mulberry32 generator of Tommy Ettinger (public domain). */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  /** A generator of its own for one part of a run, so that what the others draw does not shift its numbers. */
  static for(seed: number, part: string): Random {
    let state = seed >>> 0;
    for (const letter of part) state = Math.imul(state ^ letter.charCodeAt(0), 0x9e37_79b1) >>> 0;
    return new Random(state);
  }

  /** At least 0, below 1. */
  next(): number {
    this.state = (this.state + 0x6d2b_79f5) >>> 0;
    let mixed = this.state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.between(0, from.length - 1)]!;
  }

  /** A name of the table, as often as its weight says. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries<number>(weights) as [Name, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    return entries.at(-1)![0];
  }

  shuffled<T>(items: readonly T[]): T[] {
    const left = [...items];
    const result: T[] = [];
    while (left.length > 0) result.push(...left.splice(this.between(0, left.length - 1), 1));
    return result;
  }
}
