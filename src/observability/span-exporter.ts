import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from './log.js';

type Export = SpanExporter['export'];

/** `ExportResultCode.SUCCESS` of a package that the SDK brings along. */
const SUCCESS = 0;
const SAID_EVERY_MS = 60_000;

/**
 * An exporter that says when it fails, and when spans were lost since they came too fast: at most once a minute, with the number lost since
 * it last said so. In place of the library's own logger, which is one for the whole process.
 */
export class ReportingExporter implements SpanExporter {
  /** Spans that were ended and have not come here. */
  #waiting = 0;
  #lost = 0;
  #saidAt = -Infinity;

  /** @param most How many spans wait for the next export; what comes beyond is dropped by the library. */
  constructor(
    private readonly inner: SpanExporter,
    private readonly most: number,
    private readonly log: Log,
  ) {}

  /** To be told of every span that is ended. */
  ended(): void {
    if (this.#waiting < this.most) this.#waiting += 1;
    else this.#lost += 1;
  }

  export(spans: Parameters<Export>[0], done: Parameters<Export>[1]): void {
    this.#waiting -= spans.length;
    this.inner.export(spans, (result) => {
      if ((result.code as number) === SUCCESS) this.#delivered();
      else this.#failed(spans.length, result.error);
      done(result);
    });
  }

  forceFlush(): Promise<void> {
    return this.inner.forceFlush?.() ?? Promise.resolve();
  }

  shutdown(): Promise<void> {
    return this.inner.shutdown();
  }

  #failed(count: number, error: Error | undefined): void {
    this.#lost += count;
    if (!this.#mayBeSaid()) return;
    this.log.warn({ err: error, lost: this.#lost }, 'spans cannot be exported: calls go on without');
    this.#lost = 0;
  }

  #delivered(): void {
    if (this.#lost === 0 || !this.#mayBeSaid()) return;
    this.log.warn({ lost: this.#lost }, 'spans were lost: the collector was away, or takes fewer than come');
    this.#lost = 0;
  }

  #mayBeSaid(): boolean {
    const now = performance.now();
    if (now - this.#saidAt < SAID_EVERY_MS) return false;
    this.#saidAt = now;
    return true;
  }
}
