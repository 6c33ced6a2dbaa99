import pg from 'pg';

/** A named statement as the service prepared it, and the session settings it was prepared under. */
export interface SeenStatement {
  readonly name: string;
  readonly text: string;
  /** What its connection is for: `claim`, `settle`, `ordinary`, … */
  readonly pool: string;
  readonly options: string;
}

/** Writes down every named statement that goes through the driver in this process, by pool and name. */
export function recordStatements(): { readonly seen: ReadonlyMap<string, SeenStatement>; stop(): void } {
  const seen = new Map<string, SeenStatement>();
  const prototype = pg.Client.prototype as unknown as { query: (...given: unknown[]) => unknown };
  const original = prototype.query;
  prototype.query = function (this: unknown, ...given: unknown[]) {
    const { name, text } = (given[0] ?? {}) as { name?: string; text?: string };
    const { application_name: application = '', options = '' } = (
      this as { connectionParameters: Record<string, string | undefined> }
    ).connectionParameters;
    const pool = application.replace('stint ', '');
    if (name !== undefined && text !== undefined) seen.set(`${pool} ${name}`, { name, text, pool, options });
    return original.apply(this, given);
  };
  return {
    seen,
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
export async function genericPlan(url: string, { text, options }: SeenStatement): Promise<PlanNode[]> {
  const client = new pg.Client({ connectionString: url, options });
  await client.connect();
  try {
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
