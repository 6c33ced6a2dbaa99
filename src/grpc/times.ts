import { invalidField } from '../errors.js';
import type { Codec } from './codec.js';

/** `google.protobuf.Duration` and `google.protobuf.Timestamp`, as far as they are set. */
interface Seconds {
  readonly seconds?: number;
  readonly nanos?: number;
}

const NANOS_A_MILLI = 1_000_000;
const NANOS_A_SECOND = 1_000_000_000;

/** Whole milliseconds, as in REST: a finer duration is refused rather than rounded. */
export const DURATION: Codec = {
  read: (value, path) => {
    const { seconds = 0, nanos = 0 } = value as Seconds;
    const agree = Math.abs(nanos) < NANOS_A_SECOND && (seconds === 0 || nanos === 0 || seconds > 0 === nanos > 0);
    if (!agree) throw invalidField(path, 'must have nanos below a second, of the sign of its seconds');
    if (nanos % NANOS_A_MILLI !== 0) throw invalidField(path, 'must be in whole milliseconds');
    return seconds * 1_000 + nanos / NANOS_A_MILLI;
  },
  write: (value) => {
    const milliseconds = value as number;
    const seconds = Math.trunc(milliseconds / 1_000);
    return { seconds, nanos: (milliseconds - seconds * 1_000) * NANOS_A_MILLI };
  },
};

/** Whole microseconds: what is finer is dropped, as in REST. */
export const TIMESTAMP: Codec = {
  read: (value, path) => {
    const { seconds = 0, nanos = 0 } = value as Seconds;
    if (nanos < 0 || nanos >= NANOS_A_SECOND) throw invalidField(path, 'must have nanos from 0 to 999999999');
    return seconds * 1_000_000 + Math.floor(nanos / 1_000);
  },
  write: (value) => {
    const micros = value as number;
    const seconds = Math.floor(micros / 1_000_000);
    return { seconds, nanos: (micros - seconds * 1_000_000) * 1_000 };
  },
};
