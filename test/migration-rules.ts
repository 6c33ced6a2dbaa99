import { type Migration, withoutComments } from '../src/db/read-migrations.js';

/** The last migration of the first release: those up to it found nobody who was running. */
export const FIRST_RELEASE = 4;

/** Tables that every call writes to, and that may be large. */
const HOT =
  'job|ready|scheduled|lease|dead|finished|attempt|idempotency|job_expiry|queue_count|queue_rate|event|audit_event';

const LOCKS_HOT = new RegExp(
  `^(?:alter table (?:if exists )?(?:only )?|create (?:or replace )?trigger .* on |drop trigger .* on )(${HOT})\\b`,
  'i',
);
const WRITES_HOT = new RegExp(`^(?:with .* )?(?:update (?:only )?|delete from )(?:${HOT})\\b`, 'i');

interface Rule {
  /** What is amiss, for the person who wrote it. */
  readonly fault: string;
  readonly breaks: RegExp;
}

/** Statements that rewrite or scan a table under a lock that stops its readers or writers, each on an existing table. */
const LONG_LOCKS: readonly Rule[] = [
  {
    fault: 'add a column with a default that is the same for all rows, or without one: this default rewrites the table',
    breaks:
      /\badd\s+(?:column\s+)?(?!constraint\b)[^,]*?\b(?:default\s+[^,]*\b(?:clock_timestamp|random|gen_random_uuid|nextval|uuidv7|timeofday)\s*\(|generated\s|(?:big|small)?serial\b)/i,
  },
  {
    fault: 'add a column of the new type and copy in batches: this rewrites the table',
    breaks: /\balter\s+(?:column\s+)?\w+\s+(?:set\s+data\s+)?type\b/i,
  },
  {
    fault: 'add a check that is `not valid` and validate it in a migration of its own: this scans the table',
    breaks: /\bset\s+not\s+null\b/i,
  },
  {
    fault: 'say `not valid`, and validate it in a migration of its own: this scans the table',
    breaks: /\badd\s+(?:constraint\s+\w+\s+)?(?:check|foreign\s+key)\b(?![^]*\bnot\s+valid\b)/i,
  },
  {
    fault: 'add the column first and its foreign key `not valid` after it: this locks both tables',
    breaks: /\badd\s+column\b[^]*\breferences\b/i,
  },
  {
    fault: 'build the index concurrently first, then say `using index`: this builds it under a lock',
    breaks: /\badd\s+(?:constraint\s+\w+\s+)?(?:unique|primary\s+key|exclude)\b(?![^]*\busing\s+index\b)/i,
  },
  { fault: 'this rewrites the table', breaks: /\b(?:set\s+(?:logged|unlogged|tablespace|access\s+method))\b/i },
];

const TAKES_AWAY =
  /^(?:drop\s+(?!index\b|trigger\b)\w+|alter\s+\w+\s[^]*\b(?:drop\s+(?!default\b|not\s+null\b|identity\b|constraint\b)\w+|rename)\b|alter\s+type\s[^]*\brename\b)/i;

/**
 * What must not be in a migration that is applied while instances serve: every fault, in words; none when it may be released. `before`
 * are those that come before it.
 */
export function faultsOf(migration: Migration, before: readonly Migration[]): string[] {
  const statements = statementsOf(migration.sql);
  const made = new Set(statements.flatMap((text) => /^create\s+(?:unlogged\s+)?table\s+(\w+)/i.exec(text)?.[1] ?? []));
  const faults = statements.flatMap((text) => faultsOfStatement(text, made));
  if (!/^-- compatible-from: \d+$/m.test(migration.sql)) {
    faults.push('say `-- compatible-from: N`, the number that versions must know to go on working');
  }
  const floor = Math.max(0, ...before.map(({ compatibleFrom }) => compatibleFrom));
  if (migration.compatibleFrom < floor)
    faults.push(`compatible-from must not be below ${floor}, which an earlier one says`);
  if (statements.some((text) => TAKES_AWAY.test(text)) && migration.compatibleFrom <= floor) {
    faults.push('what is taken away may be in use by the oldest version that runs: compatible-from must rise with it');
  }
  const locked = new Set(statements.flatMap((text) => alteredHot(text)));
  if (locked.size > 1) {
    faults.push(`one hot table each migration: while it waits for the second it holds ${[...locked].join(', ')}`);
  }
  return faults;
}

function faultsOfStatement(text: string, made: ReadonlySet<string>): string[] {
  const altered = /^alter\s+table\s+(?:if\s+exists\s+)?(?:only\s+)?(\w+)/i.exec(text)?.[1];
  const indexed = /^create\s+(?:unique\s+)?index\s+(?!concurrently\b)[^]*?\bon\s+(?:only\s+)?(\w+)/i.exec(text)?.[1];
  const faults: string[] = [];
  if (altered !== undefined && !made.has(altered)) {
    faults.push(...LONG_LOCKS.filter(({ breaks }) => breaks.test(text)).map(({ fault }) => `${fault}: ${text}`));
  }
  if (indexed !== undefined && !made.has(indexed))
    faults.push(`build it concurrently, in a migration of its own: ${text}`);
  if (/^drop\s+index\s+(?!concurrently\b)/i.test(text)) faults.push(`drop it concurrently: ${text}`);
  if (WRITES_HOT.test(text)) {
    faults.push(`let a task fill in or delete rows in batches: ${text}`);
  }
  if (/^(?:truncate|cluster|vacuum|reindex|lock|refresh)\b/i.test(text)) faults.push(`not in a migration: ${text}`);
  return faults;
}

/** The hot table that the statement locks against readers or writers. */
function alteredHot(text: string): string[] {
  const table = LOCKS_HOT.exec(text)?.[1];
  return table === undefined ? [] : [table];
}

/** Split at semicolons, but not within a function's body. */
function statementsOf(sql: string): string[] {
  const kept = withoutComments(sql).replaceAll(/\$(\w*)\$[^]*?\$\1\$/g, '$body$');
  return kept
    .split(';')
    .map((text) => text.replaceAll(/\s+/g, ' ').trim())
    .filter((text) => text !== '');
}
