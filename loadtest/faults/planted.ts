import pg from 'pg';
import { type Plant, PLANTS, READ_EXPIRED, REWRITES } from './plants.js';

/** Longest time that a statement planted as `early-ack` is carried out after it was answered. */
const LATE_MS = 300;
/** Between the planted reaper's look and its deletes. */
const REAPER_MS = 400;

interface Query {
  readonly name: string;
  readonly text: string;
  readonly values: unknown[];
}
type Run = (this: pg.Client, query: Query) => Promise<pg.QueryResult>;

// Preloaded into a service process (node --import): rewrites statements by their names on their way to the database.
const plant = process.env['STINT_TEST_PLANT'];
if (plant !== undefined) {
  if (!isPlant(plant)) throw new Error(`STINT_TEST_PLANT: no such plant: ${plant}`);
  sow(plant);
}

function isPlant(name: string): name is Plant {
  return (PLANTS as readonly string[]).includes(name);
}

function sow(planted: Plant): void {
  const prototype = pg.Client.prototype as unknown as { query: (...given: unknown[]) => unknown };
  const original = prototype.query;
  const run = original as unknown as Run;
  const rewrites = new Map(REWRITES[planted].map(({ name, rewrite }) => [name, rewrite]));
  prototype.query = function (this: pg.Client, ...given: unknown[]): unknown {
    const query = given[0] as Partial<Query> | undefined;
    const rewrite = query?.name === undefined ? undefined : rewrites.get(query.name);
    // The pool's own calls come with a callback and name no statement.
    if (rewrite === undefined || given.length > 1) return original.apply(this, given);
    const changed = { ...(query as Query), text: rewrite((query as Query).text) };
    if (planted === 'early-ack') return answerEarly(this, run, changed);
    if (planted === 'reaper') return reapById(this, run, changed);
    return run.call(this, changed);
  };
}

/** Says that all is stored, and stores it a moment later. */
function answerEarly(client: pg.Client, run: Run, query: Query): Promise<Pick<pg.QueryResult, 'rows'>> {
  // Whether it succeeds is what an early answer cannot know.
  setTimeout(() => void run.call(client, query).catch(() => undefined), Math.random() * LATE_MS);
  const row = { ord: null, now: Date.now() * 1_000, dueAt: null, fault: null };
  return Promise.resolve({ rows: [row] });
}

/** Looks for what has run out, and takes it away by job id a moment later, whatever lease it has by then. */
async function reapById(client: pg.Client, run: Run, query: Query): Promise<pg.QueryResult> {
  const read = { name: 'return-expired-read', text: READ_EXPIRED, values: query.values };
  const { rows } = await run.call(client, read);
  const ids = (rows as { jobId: string }[]).map(({ jobId }) => jobId);
  if (ids.length > 0) await new Promise((resolve) => setTimeout(resolve, REAPER_MS));
  return run.call(client, { ...query, values: [ids] });
}
