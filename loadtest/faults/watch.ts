import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import type { BoundChange, BoundProbe, DueRow, Evidence } from './evidence.js';
import { now } from './journal.js';
import type { FaultyPostgres } from './postgres.js';
import { BOUNDED, STORMY, UNBOUNDED } from './queues.js';

const EVERY_MS = 200;

export type Findings = Pick<Evidence, 'boundProbes' | 'boundChanges' | 'dues'>;

/** Looks into the database again and again while faults are at work, past the proxies, for what is no longer to be seen at the end. */
export class Watch {
  private readonly probes: BoundProbe[] = [];
  private readonly dues = new Map<string, DueRow>();
  private readonly going: Promise<void>;
  private stopped = false;

  private constructor(private readonly postgres: FaultyPostgres) {
    this.going = this.go();
  }

  /** Has the database note from now on how the bound is changed, and begins. */
  static async start(postgres: FaultyPostgres): Promise<Watch> {
    await postgres.sql(NOTE_BOUNDS);
    return new Watch(postgres);
  }

  async end(): Promise<void> {
    this.stopped = true;
    await this.going;
  }

  /** Ends, and answers what was seen. */
  async findings(): Promise<Findings> {
    await this.end();
    const boundChanges = await this.postgres.sql<BoundChange>(CHANGES);
    return { boundProbes: this.probes, boundChanges, dues: [...this.dues.values()] };
  }

  private async go(): Promise<void> {
    for (let client: pg.Client | undefined; ; await pause(EVERY_MS)) {
      try {
        if (!this.stopped) client ??= await this.postgres.connect();
        if (client !== undefined && !this.stopped) await this.look(client);
      } catch {
        // A fault took the database away, or the connection: the next look has one of its own.
        await client?.end().catch(() => undefined);
        client = undefined;
      }
      if (!this.stopped) continue;
      await client?.end();
      return;
    }
  }

  private async look(client: pg.Client): Promise<void> {
    const probes = await client.query<Omit<BoundProbe, 'at'>>(PROBE, [BOUNDED]);
    for (const probe of probes.rows) this.probes.push({ ...probe, at: now() });
    const dues = await client.query<DueRow>(DUES, [STORMY]);
    for (const due of dues.rows) this.dues.set(`${due.id} ${due.epoch}`, due);
  }
}

// A change is stamped before it is committed, so no claim that saw a raised bound has an earlier time than the raise.
const NOTE_BOUNDS = `create schema faults;
create table faults.bound (at timestamptz not null, bound int not null);
insert into faults.bound select clock_timestamp(), max_in_flight from stint.queue where max_in_flight is not null;
create function faults.note_bound() returns trigger language plpgsql
as 'begin insert into faults.bound values (clock_timestamp(), coalesce(new.max_in_flight, ${UNBOUNDED})); return null; end';
create trigger note_bound after update of max_in_flight on stint.queue
for each row when (new.name = '${BOUNDED}') execute function faults.note_bound()`;

const CHANGES = `select (extract(epoch from at) * 1000000)::float8 as at, bound from faults.bound order by at`;

// One snapshot.
const PROBE = `select (extract(epoch from clock_timestamp()) * 1000000)::float8 as clock,
  array(select (extract(epoch from l.leased_at) * 1000000)::float8 from stint.lease l
    where l.queue_id = q.id and l.lease_expires_at > clock_timestamp() order by l.leased_at) as live,
  (select count(*) from stint.ready r where r.queue_id = q.id)::int as waiting, coalesce(q.max_in_flight, ${UNBOUNDED}) as bound
from stint.queue q where q.name = $1`;

const DUES = `select s.job_id as id, s.epoch, (extract(epoch from s.due_at) * 1000000)::float8 as "dueAt"
from stint.scheduled s join stint.queue q on q.id = s.queue_id and q.name = $1
where s.ended = 'nacked'`;
