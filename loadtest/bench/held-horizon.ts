import pg from 'pg';

/** A session of somebody else, with a transaction that stays open until it is let go. */
export interface OpenSession {
  readonly letGo: () => Promise<void>;
}

/** A transaction that keeps every row version from being removed: it has a snapshot and a transaction id, and does nothing more. */
export async function holdHorizon(url: string): Promise<OpenSession> {
  return openSession(url, [
    'begin isolation level repeatable read',
    'select pg_current_xact_id(), count(*) from stint.queue',
  ]);
}

/** A session that listens for wake-ups and reads none of them, since a transaction is open in it. */
export async function stoppedListener(url: string): Promise<OpenSession> {
  return openSession(url, ['listen stint', 'begin', 'select 1']);
}

async function openSession(url: string, statements: readonly string[]): Promise<OpenSession> {
  const options = '-c idle_in_transaction_session_timeout=0';
  const client = new pg.Client({ connectionString: url, application_name: 'bench holder', options });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  return {
    letGo: async () => {
      await client.query('rollback');
      await client.end();
    },
  };
}
