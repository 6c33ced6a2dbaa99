/** Faults that the harness plants in a service to prove that it finds them. */
export const PLANTS = ['epoch', 'early-ack', 'reaper'] as const;
export type Plant = (typeof PLANTS)[number];

/** The rules whose breach shows a plant; any other breach is no proof that it was seen. */
export const SHOWN_BY: Readonly<Record<Plant, readonly string[]>> = {
  epoch: ['a job is acked under one lease', 'no lease token but the newest is accepted'],
  'early-ack': ['a job that was accepted exists'],
  reaper: ['a lease lasts until the instant its worker was told'],
};

export interface PlantedText {
  /** The statement's name. */
  readonly name: string;
  readonly rewrite: (text: string) => string;
}

const THIS_LEASE = 'and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]';

const FIRST_ROW =
  'select null::int as ord, (extract(epoch from at) * 1000000)::float8 as now, null::float8 as "dueAt", null as fault from clock';

/** Which statements a plant changes, and how. A rewrite throws when the text that it looks for is not there. */
export const REWRITES: Readonly<Record<Plant, readonly PlantedText[]>> = {
  epoch: ['ack', 'hand-back', 'heartbeat'].map((name) => ({
    name,
    rewrite: (text) => replaced(text, THIS_LEASE, 'and $3::bigint[] is not null'),
  })),
  // The text stays; when it is carried out changes, and it is answered in its place with its own first row.
  'early-ack': [{ name: 'enqueue', rewrite: (text) => (replaced(text, FIRST_ROW, ''), text) }],
  reaper: [{ name: 'return-expired', rewrite: byIdOnly }],
};

/** What the planted reaper reads before its pause: as the true one, but it locks nothing. */
export const READ_EXPIRED = `select job_id as "jobId" from lease where lease_expires_at <= clock_timestamp() order by job_id limit $1::int`;

function byIdOnly(text: string): string {
  const read = /over as materialized \([^]*?for update skip locked\n\)/;
  const given = replaced(text, read, 'over as materialized (select id as job_id from unnest($1::uuid[]) id)');
  const condition =
    'where l.job_id = over.job_id and l.lease_id = over.lease_id and l.lease_expires_at <= (select at from clock)';
  return replaced(given, condition, 'where l.job_id = over.job_id');
}

function replaced(text: string, sought: string | RegExp, by: string): string {
  // As a function, since a replacement's text may hold what replace() takes for a reference.
  const changed = text.replace(sought, () => by);
  if (changed === text) throw new Error(`the plant is out of date: the statement has no «${String(sought)}»`);
  return changed;
}
