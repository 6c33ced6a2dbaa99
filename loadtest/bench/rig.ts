import { Generator } from './generator.js';
import { type BenchPostgres, startPostgres } from './postgres.js';
import type { Scale } from './scale.js';
import { type BenchService, type ServiceOptions, startService } from './service.js';

/** What a mode works with. What it starts here is ended with the rig. */
export class Rig {
  private readonly generators: Generator[] = [];
  private readonly services = new Set<Promise<BenchService>>();
  private databases = 0;
  private closed = false;
  private wrong: { calls: number; first: string } | undefined;

  private constructor(
    readonly postgres: BenchPostgres,
    readonly scale: Scale,
    /** Tells a person what is going on. */
    readonly say: (text: string) => void,
  ) {}

  static async open(scale: Scale, say: (text: string) => void): Promise<Rig> {
    return new Rig(await startPostgres(), scale, say);
  }

  /** A service on an empty database of its own, or on the one named. */
  async service(options: Partial<ServiceOptions> = {}): Promise<BenchService> {
    const url = options.url ?? (await this.database());
    this.mustBeOpen();
    const starting = startService({ ...options, url });
    this.services.add(starting);
    return starting;
  }

  /** Stops one of the services before the others. */
  async stop(service: BenchService): Promise<void> {
    for (const starting of this.services) if ((await starting) === service) this.services.delete(starting);
    await service.stop();
  }

  /** The n-th load generator, from 0; one that is there already is taken. */
  generator(n = 0): Generator {
    this.mustBeOpen();
    while (this.generators.length <= n) this.generators.push(new Generator());
    return this.generators[n]!;
  }

  /** Calls that were refused or failed, and how the first of them did. */
  wentWrong(calls: number, first: string): void {
    this.wrong ??= { calls: 0, first };
    this.wrong.calls += calls;
  }

  /** What went wrong since the last time this was asked, in words. */
  takeFaults(): string[] {
    const { wrong } = this;
    this.wrong = undefined;
    return wrong === undefined ? [] : [`${wrong.calls} calls went wrong, the first: ${wrong.first}`];
  }

  /** Ends the load generators; the next one that is asked for is a new process. */
  async endGenerators(): Promise<void> {
    await Promise.all(this.generators.splice(0).map((generator) => generator.end()));
  }

  /** Ends services and generators and drops the databases: the next mode begins anew on the same Postgres. */
  async clear(): Promise<void> {
    await this.endGenerators();
    const started = await Promise.allSettled([...this.services]);
    this.services.clear();
    // One that did not start has ended by itself, and whoever asked for it was told.
    const running = started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    await Promise.all(running.map((service) => service.stop()));
    for (; this.databases > 0; this.databases -= 1) await this.postgres.dropDatabase(`bench_${this.databases}`);
  }

  /** Ends everything. A mode that still runs can start nothing more. */
  async close(): Promise<void> {
    this.closed = true;
    await this.clear();
    await this.postgres.stop();
  }

  private async database(): Promise<string> {
    this.mustBeOpen();
    this.databases += 1;
    return this.postgres.createDatabase(`bench_${this.databases}`);
  }

  private mustBeOpen(): void {
    if (this.closed) throw new Error('the run has been ended');
  }
}
