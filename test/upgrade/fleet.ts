import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { clientFor, until } from '../helpers/service.js';
import { endWith, freePort, runProgram, type Running } from '../helpers/service-process.js';

const START_MS = 40_000;
/** How often readiness is asked, as a load balancer does; several times within the delay of a drain. */
const PROBE_MS = 100;

export interface FleetOptions {
  readonly databaseUrl: string;
  readonly size: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** One place in the fleet: its addresses stay the same from start to start. */
export interface Instance {
  readonly base: string;
  /** `host:port` of gRPC. */
  readonly grpc: string;
  /** What the last probe of `/readyz` has said. */
  ready: boolean;
  /** Rises with every start that became ready. */
  generation: number;
}

/** Instances of the service in processes of their own on one database, and the probes by which a balancer knows them. */
export class Fleet {
  readonly adminKey = randomBytes(24).toString('hex');
  readonly #processes = new Map<Instance, Running>();
  readonly #ended: Running[] = [];
  #probing: NodeJS.Timeout | undefined;

  private constructor(
    readonly instances: readonly Instance[],
    private readonly options: FleetOptions,
  ) {}

  /** Starts all of them from `main`, a compiled `main.js`, and waits until they are ready. */
  static async start(main: string, options: FleetOptions): Promise<Fleet> {
    const places = Array.from({ length: options.size }, async () => ({
      base: `http://127.0.0.1:${await freePort()}`,
      grpc: `127.0.0.1:${await freePort()}`,
      ready: false,
      generation: 0,
    }));
    const fleet = new Fleet(await Promise.all(places), options);
    fleet.#probing = setInterval(() => void fleet.#probe(), PROBE_MS);
    await Promise.all(fleet.instances.map((instance) => fleet.launch(instance, main)));
    return fleet;
  }

  /** The processes that run now. */
  process(instance: Instance): Running {
    return this.#processes.get(instance)!;
  }

  /** Starts an instance and waits until it is ready. */
  async launch(instance: Instance, main: string): Promise<void> {
    const running = runProgram(process.execPath, [main, 'serve'], {
      STINT_DATABASE_URL: this.options.databaseUrl,
      STINT_ADMIN_KEY: this.adminKey,
      STINT_HOST: '127.0.0.1',
      STINT_HTTP_PORT: new URL(instance.base).port,
      STINT_GRPC_PORT: instance.grpc.split(':')[1]!,
      ...this.options.env,
    });
    this.#processes.set(instance, running);
    instance.ready = false;
    await until(
      'the instance is ready',
      () => {
        if (running.child.exitCode !== null) throw new Error(`the service has ended: ${running.output()}`);
        return instance.ready;
      },
      START_MS,
    );
    instance.generation += 1;
  }

  /** Ends an instance by SIGTERM and answers how. */
  async end(instance: Instance): ReturnType<typeof endWith> {
    const running = this.process(instance);
    this.#ended.push(running);
    return endWith(running, 'SIGTERM');
  }

  /** All that the instances have written, those that have ended too. */
  output(): string {
    return [...this.#ended, ...this.#processes.values()].map((running) => running.output()).join('');
  }

  async stop(): Promise<void> {
    clearInterval(this.#probing);
    for (const running of this.#processes.values()) {
      if (running.child.exitCode === null && running.child.signalCode === null) await endWith(running, 'SIGTERM');
    }
  }

  async #probe(): Promise<void> {
    await Promise.all(
      this.instances.map(async (instance) => {
        const asked = this.#processes.get(instance);
        const ready = await clientFor(instance.base, '')
          .get('/readyz')
          .then(({ status }) => status === 200)
          // Not listening: not ready.
          .catch(() => false);
        // What one process has said is nothing about the next.
        if (asked === this.#processes.get(instance)) instance.ready = ready;
      }),
    );
  }
}

/** Where the main.js lies that these tests were compiled with. */
export const THIS_VERSION = path.join(import.meta.dirname, '../../src/main.js');
