import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import { killIfThere } from './postgres.js';
import type { Fault, FaultKind } from './schedule.js';
import type { Stage } from './stage.js';

const INSIST_MS = 20_000;
/** Until the orchestrator has started what was killed. */
const RESTART_MS = 600;
const CLIENTS_MOST = 200;
const PROCESS_MS = 3_000;

type Injection = (stage: Stage, fault: Fault) => Promise<unknown>;

/** The fault cannot be had, for the reason given. */
class NotPossible extends Error {}

/** Does a fault and takes it back; resolves when that is done. Answers why, when the fault cannot be had here. */
export async function inject(stage: Stage, fault: Fault): Promise<string | undefined> {
  try {
    await INJECTIONS[fault.kind](stage, fault);
    return undefined;
  } catch (error) {
    if (error instanceof NotPossible) return error.message;
    throw error;
  }
}

const INJECTIONS: Readonly<Record<FaultKind, Injection>> = {
  'kill-service': async ({ services }, { target }) => {
    await send(services[target]!, 'SIGKILL');
    await pause(RESTART_MS);
  },
  'restart-service': async ({ services }, { target }) => {
    await send(services[target]!, 'SIGTERM');
    await pause(RESTART_MS);
  },
  'freeze-service': async ({ services }, { target, duration }) => {
    await send(services[target]!, 'SIGSTOP');
    await pause(duration);
    services[target]!.signal('SIGCONT');
  },
  'kill-postgres': async ({ postgres }, { twist }) => {
    await postgres.kill(twist < 0.5);
    await pause(RESTART_MS);
    await postgres.untilUp();
  },
  'kill-backend': async ({ postgres }, { twist }) => {
    const backends = await insist(() => postgres.sql<{ pid: number }>(BACKENDS, ['stint %']));
    if (backends.length > 0) killIfThere(backends[Math.floor(twist * backends.length)]!.pid);
    await pause(RESTART_MS);
    await postgres.untilUp();
  },
  'kill-worker': async ({ workers }, { target }) => {
    await send(workers[target]!, 'SIGKILL');
    await pause(RESTART_MS);
  },
  'freeze-worker': async ({ workers }, { target, duration }) => {
    await send(workers[target]!, 'SIGSTOP');
    await pause(duration);
    workers[target]!.signal('SIGCONT');
  },
  'reset-clients': ({ clientLinks }, { target }) => Promise.resolve(clientLinks[target]!.reset()),
  'reset-database': ({ databaseLinks }, { target }) => Promise.resolve(databaseLinks[target]!.reset()),
  'mute-clients': ({ clientLinks }, fault) => spoil(clientLinks[fault.target]!, 'mute', fault),
  'mute-database': ({ databaseLinks }, fault) => spoil(databaseLinks[fault.target]!, 'mute', fault),
  'slow-clients': ({ clientLinks }, fault) => spoil(clientLinks[fault.target]!, 'slow', fault),
  'slow-database': ({ databaseLinks }, fault) => spoil(databaseLinks[fault.target]!, 'slow', fault),
  'read-only': async ({ postgres }, { duration }) => {
    const set = (value: 'on' | 'off') =>
      insist(async () => {
        await postgres.sql(`alter system set default_transaction_read_only = ${value}`);
        await postgres.sql('select pg_reload_conf()');
      });
    await set('on');
    await pause(duration);
    await set('off');
  },
  'terminate-all': ({ postgres }) => insist(() => postgres.sql(TERMINATE, ['stint %'])),
  'terminate-listener': ({ postgres }) => insist(() => postgres.sql(TERMINATE, ['stint wakeups'])),
  'no-connections': exhaust,
  'held-snapshot': async ({ postgres }, { duration }) => {
    const client = await insist(() => postgres.connect());
    await client.query('begin isolation level repeatable read').catch(lost);
    await client.query('select 1').catch(lost);
    await pause(duration);
    await client.end();
  },
  'full-disk': async ({ postgres }, { duration }) => {
    const { disk } = postgres;
    if (disk === undefined) throw new NotPossible('no file system could be mounted here');
    await disk.fill();
    await pause(duration);
    await disk.relieve();
  },
  'step-clock': ({ services }, { target }) => send(services[target]!, 'SIGUSR2'),
};

/** Another fault may just have ended the process; its next life is waited for, for a while. */
async function send<Signal extends string>(
  process: { signal(signal: Signal): boolean },
  signal: Signal,
): Promise<void> {
  for (const deadline = Date.now() + PROCESS_MS; !process.signal(signal); await pause(50)) {
    if (Date.now() > deadline) throw new NotPossible('the process was not there');
  }
}

/** Another fault took the connection, and what it held with it. */
function lost(): void {
  return undefined;
}

/** A mute link ends either with all that it kept, late, or with a reset. */
async function spoil(
  link: Stage['clientLinks'][number],
  mode: 'mute' | 'slow',
  { duration, twist }: Fault,
): Promise<void> {
  link.setMode(mode);
  await pause(duration);
  if (mode === 'mute' && twist < 0.5) link.reset();
  link.setMode('pass');
}

/** Takes every connection that is left, ends those of the services, and holds their places for a while too. */
async function exhaust({ postgres }: Stage, { duration }: Fault): Promise<void> {
  const held: pg.Client[] = [];
  const take = async (): Promise<void> => {
    while (held.length < CLIENTS_MOST) held.push(await postgres.connect());
  };
  try {
    await take().catch(lost);
    await held[0]?.query(TERMINATE, ['stint %']).catch(lost);
    for (const until = Date.now() + duration; Date.now() < until; await pause(50)) await take().catch(lost);
  } finally {
    await Promise.all(held.map((client) => client.end().catch(lost)));
  }
}

/** What the harness itself asks of Postgres may be in the way of another fault. */
async function insist<T>(run: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + INSIST_MS; ;) {
    try {
      return await run();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await pause(100);
    }
  }
}

const BACKENDS = `select pid from pg_stat_activity where application_name like $1 order by pid`;

const TERMINATE = `select pg_terminate_backend(pid) from pg_stat_activity where application_name like $1 and pid <> pg_backend_pid()`;
