import type { Config } from './config.js';
import { startEmbedded } from './db/embedded.js';
import { findRunning } from './db/embedded-running.js';
import { pendingMigrations } from './db/migrate.js';
import { Connections } from './db/pool.js';
import { createLog } from './observability/log.js';
import { INVARIANTS, type Invariant } from './tasks/invariants.js';

export interface CheckOptions {
  /** One JSON document at the end in place of lines for a person. */
  readonly json: boolean;
  readonly write: (text: string) => unknown;
}

/** What one rule's look at the database has found. */
interface Checked {
  readonly breach: string;
  readonly rule: string;
  readonly ok: boolean;
  readonly breaches: readonly object[];
  /** Whether there are further breaches. */
  readonly more: boolean;
}

const MOST_SHOWN = 20;
const LONGEST_MS = 3_600_000;
/** Whole tables are read, so plans that the service avoids are right here. */
const SETTINGS = { default_transaction_read_only: 'on', jit: 'off', work_mem: '64MB' };

/**
 * Holds the whole database to every rule of `tasks/invariants.ts` and writes what it finds; changes nothing, and may run beside
 * the service. Each rule has a transaction and a snapshot of its own, of at most an hour. Answers 0, or 1 when a rule is broken.
 * Throws Error in plain words for whatever stands in the way.
 */
export async function check(config: Config, { json, write }: CheckOptions): Promise<number> {
  const { url, stop } = await openDatabase(config);
  try {
    const pending = await pendingMigrations(url);
    if (pending.length > 0) throw new Error('the database is not at this version: run stint migrate, then check');
    const connections = readOnly(url);
    const checked: Checked[] = [];
    try {
      for (const invariant of INVARIANTS) {
        const result = await checkOne(connections, invariant);
        checked.push(result);
        if (!json) write(linesOf(result));
      }
    } finally {
      await connections.close();
    }
    const broken = checked.filter(({ ok }) => !ok).length;
    write(json ? `${JSON.stringify({ ok: broken === 0, rules: checked }, null, 2)}\n` : summaryOf(broken));
    return broken === 0 ? 0 : 1;
  } finally {
    await stop();
  }
}

/** The embedded Postgres is used as it runs, started otherwise. */
async function openDatabase({ databaseUrl, dataDirectory, logLevel }: Config) {
  const url = databaseUrl ?? (await findRunning(dataDirectory));
  if (url !== undefined) return { url, stop: () => Promise.resolve() };
  const embedded = await startEmbedded({ dataDirectory, log: createLog(logLevel, process.stderr) });
  return { url: embedded.url, stop: () => embedded.stop() };
}

function readOnly(url: string): Connections {
  return new Connections({
    url,
    name: 'check command',
    size: 1,
    settings: SETTINGS,
    statementTimeout: LONGEST_MS,
    onCall: () => undefined,
    onLost: () => undefined,
  });
}

async function checkOne(connections: Connections, { breach, rule, statement }: Invariant): Promise<Checked> {
  const rows = await connections.query<object>(statement, [MOST_SHOWN + 1]);
  return {
    breach,
    rule,
    ok: rows.length === 0,
    breaches: rows.slice(0, MOST_SHOWN),
    more: rows.length > MOST_SHOWN,
  };
}

function linesOf({ rule, ok, breaches, more, breach }: Checked): string {
  if (ok) return `ok      ${rule}\n`;
  const rows = breaches.map((row) => `        ${JSON.stringify(row)}\n`).join('');
  return `BROKEN  ${rule} (${breach}):\n${rows}${more ? '        … and more\n' : ''}`;
}

function summaryOf(broken: number): string {
  return broken === 0
    ? `All ${INVARIANTS.length} rules hold.\n`
    : `${broken} of ${INVARIANTS.length} rules are broken.\n`;
}
