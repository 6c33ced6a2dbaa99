import pg from 'pg';
import { SET_SESSION } from '../../src/db/pool.js';

/** A named statement as the service prepared it, and the session settings it was prepared under. */
export interface SeenStatement {
  readonly name: string;
  readonly text: string;
  /** What its connection is for: `claim`, `settle`, `ordinary`, … */
  readonly pool: string;
  /** Names and values. */
  readonly settings: readonly (readonly string[])[];
}

export interface StatementRecord {
  /** By pool and name. */
  readonly seen: ReadonlyMap<string, SeenStatement>;
  /** How often the statement of that pool and name was sent. */
  times(name: string): number;
  stop(): void;
}

/** Writes down every named statement that goes through the driver in this process. */
export function recordStatements(): StatementRecord {
  const seen = new Map<string, SeenStatement>();
  const sent = new Map<string, number>();
  const settingsOf = new WeakMap<object, readonly (readonly string[])[]>();
  const prototype = pg.Client.prototype as unknown as { query: (...given: unknown[]) => unknown };
  const original = prototype.query;
  prototype.query = function (this: object, ...given: unknown[]) {
    if (given[0] === SET_SESSION) settingsOf.set(this, given[1] as readonly (readonly string[])[]);
    const { name, text } = (given[0] ?? {}) as { name?: string; text?: string };
    const { application_name: application = '' } = (
      this as { readonly connectionParameters: Readonly<Record<string, string | undefined>> }
    ).connectionParameters;
    const pool = application.replace('stint ', '');
    if (name !== undefined && text !== undefined) {
      const key = `${pool} ${name}`;
      seen.set(key, { name, text, pool, settings: settingsOf.get(this) ?? [[], []] });
      sent.set(key, (sent.get(key) ?? 0) + 1);
    }
    return original.apply(this, given);
  };
  return {
    seen,
    times: (name) => sent.get(name) ?? 0,
    stop: () => {
      prototype.query = original;
    },
  };
}

export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Recheck Cond'?: string;
  readonly 'TID Cond'?: string;
  readonly Filter?: string;
  readonly Plans?: readonly PlanNode[];
}

/** The statement's generic plan on that database, under the settings the service gives it; every node, flat. */
export async function genericPlan(url: string, { text, settings }: SeenStatement): Promise<PlanNode[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(SET_SESSION, [...settings]);
    await client.query('set plan_cache_mode = force_generic_plan');
    await client.query(`prepare explained as ${text}`);
    const [row] = (
      await client.query(
        `select cardinality(parameter_types) as n from pg_prepared_statements where name = 'explained'`,
      )
    ).rows;
    const values = Array.from({ length: row.n as number }, () => 'null').join(', ');
    const explained = await client.query(
      `explain (format json, costs off) execute explained${values === '' ? '' : `(${values})`}`,
    );
    return flat(explained.rows[0]['QUERY PLAN'][0].Plan as PlanNode);
  } finally {
    await client.end();
  }
}

function flat(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flat)];
}
