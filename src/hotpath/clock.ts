/**
 * The database's clock as this instance last saw it. Used only where a bound is checked before a statement runs; what a
 * statement decides, it decides by the database's own clock.
 */
export class DatabaseClock {
  private offset = 0;

  /** Takes a reading: the database's time in microseconds, just received. */
  observe(micros: number): void {
    this.offset = micros - Date.now() * 1_000;
  }

  /** The database's time in microseconds since 1970, good to some milliseconds. */
  now(): number {
    return Date.now() * 1_000 + this.offset;
  }
}
