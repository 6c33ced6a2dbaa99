import pg from 'pg';

/** Runs `use` with a connection of its own, search path and time limits set so that long statements are let run. */
export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'bench',
    options: '-c search_path=stint -c idle_in_transaction_session_timeout=0',
  });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Rows of one statement. */
export async function query<R extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<R[]> {
  return withClient(url, async (client) => (await client.query<R>(text, values)).rows);
}
