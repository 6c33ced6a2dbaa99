import { Type } from 'typebox';
import { compileEncoder } from '../core/encode.js';
import { listedSchedule, type ScheduleRow, setUp } from './schedule.js';

/** What the audit log calls a schedule. */
export function recordedName(name: string): string {
  return `schedule ${name}`;
}

const encodeSetUp = compileEncoder(Type.Object(setUp));

/** How a schedule is set up, as the audit log keeps it: all but its payload. */
export function recordedSetUp(row: ScheduleRow): string {
  return encodeSetUp(listedSchedule(row));
}
