import { Type } from 'typebox';
import { compileEncoder } from '../core/encode.js';
import { DeadChoice } from './dead-filter.js';
import { Queue } from './queue.js';
import { shownSettings } from './settings.js';

/** What the audit log calls a queue. */
export function recordedQueue(name: string): string {
  return `queue ${name}`;
}

/** The settings of a queue as the audit log keeps them. */
export const recordedSettings = compileEncoder(Type.Object(shownSettings));

/** A queue with its counts as the audit log keeps it. */
export const recordedWhole = compileEncoder(Queue);

const MOST_IDS = 100;

const Choice = Type.Object({
  /** The first of them: a row of the log stays small. */
  ids: Type.Optional(Type.Array(Type.String())),
  idsGiven: Type.Optional(Type.Integer()),
  filter: DeadChoice.properties.filter,
  toQueue: Type.Optional(Type.String()),
  rate: Type.Optional(Type.Number()),
  matched: Type.Integer(),
});
const encodeChoice = compileEncoder(Choice);

export interface ActOnDead extends DeadChoice {
  readonly toQueue?: string;
  readonly rate?: number;
}

/** Which dead jobs were meant, what was to become of them, and how many matched, as the audit log keeps it. */
export function recordedChoice({ ids, filter, toQueue, rate }: ActOnDead, matched: number): string {
  return encodeChoice({ ids: ids?.slice(0, MOST_IDS), idsGiven: ids?.length, filter, toQueue, rate, matched });
}
