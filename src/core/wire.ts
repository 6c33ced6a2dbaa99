import { type TSchema, type TSchemaOptions, Type } from 'typebox';

/**
 * The types whose form on the wire differs from their form in the service. The operation table names them; an adapter
 * turns the wire's form into the service's on the way in and back on the way out, so that rooms see only the latter.
 *
 * | marker      | in the service                       | REST                              | gRPC             |
 * | ----------- | ------------------------------------ | --------------------------------- | ---------------- |
 * | `duration`  | whole milliseconds                   | `"30s"`, `"1h30m"`                | `Duration`       |
 * | `timestamp` | whole microseconds since 1970, UTC   | RFC 3339                          | `Timestamp`      |
 * | `json`      | the JSON text itself                 | the JSON value, to the byte       | `bytes`          |
 * | `bytes`     | Buffer                               | base64                            | `bytes`          |
 */
export type WireKind = 'duration' | 'timestamp' | 'json' | 'bytes';

/** The key under which a schema carries its `WireKind`. */
export const WIRE = 'x-wire';

export interface DurationOptions extends TSchemaOptions {
  /** Bounds in milliseconds, both inclusive. */
  readonly minimum: number;
  readonly maximum: number;
}

/** A span of time: whole milliseconds inside. */
export function Duration(options: DurationOptions) {
  return Type.Unsafe<number>({ ...options, type: 'integer', [WIRE]: 'duration' });
}

/** An instant: whole microseconds since 1970 inside. */
export function Timestamp(options: TSchemaOptions = {}) {
  return Type.Unsafe<number>({ ...options, type: 'integer', [WIRE]: 'timestamp' });
}

/** Any JSON value, carried as its own text. */
export function JsonText(options: TSchemaOptions = {}) {
  return Type.Unsafe<string>({ ...options, type: 'string', [WIRE]: 'json' });
}

/** Bytes that are not JSON. */
export function Bytes(options: TSchemaOptions = {}) {
  return Type.Unsafe<Buffer>({ ...options, [WIRE]: 'bytes' });
}

/** The key that marks an array whose faulty items are replaced by `InvalidItem` and fail alone. */
export const LENIENT = 'x-lenient';

/** What stands in the place of a faulty item of a lenient array. */
export class InvalidItem {
  constructor(
    readonly field: string,
    readonly message: string,
  ) {}
}

/** An array in which one faulty item never fails its neighbours. */
export function LenientArray<T extends TSchema>(items: T, options: TSchemaOptions = {}) {
  return Type.Unsafe<(Type.Static<T> | InvalidItem)[]>({ ...options, type: 'array', items, [LENIENT]: true });
}
