/** An order and its job, in one transaction: DATABASE_URL=… node dist/examples/outbox/order.js [email] */
import pg from 'pg';

const client = new pg.Client({ connectionString: process.env['DATABASE_URL'] });
await client.connect();
try {
  process.stdout.write(`${await placeOrder(process.argv[2] ?? 'ada@example.com')}\n`);
} finally {
  await client.end();
}

/** Answers the idempotency key of the job. */
async function placeOrder(email: string): Promise<string> {
  await client.query('begin');
  try {
    const order = await client.query<{ id: string }>('insert into orders (email) values ($1) returning id', [email]);
    const payload = { order: order.rows[0]!.id, to: email };
    const job = await client.query<{ key: string }>('select stint_outbox.enqueue($1, $2, $3) as key', [
      'mail',
      JSON.stringify(payload),
      { kind: 'receipt' },
    ]);
    await client.query('commit');
    return job.rows[0]!.key;
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}
