// Preloaded into a service process (node --import): its wall clock is so many milliseconds ahead, and at SIGUSR2 jumps by so many more.
const step = Number(process.env['STINT_TEST_CLOCK_STEP'] ?? '0');
const TrueDate = Date;
let ahead = Number(process.env['STINT_TEST_CLOCK_AHEAD'] ?? '0');

class SteppedDate extends TrueDate {
  constructor(...given: [] | [number | string | Date]) {
    if (given.length === 0) super(TrueDate.now() + ahead);
    else super(...(given as [number]));
  }

  static override now(): number {
    return TrueDate.now() + ahead;
  }
}

globalThis.Date = new Proxy(SteppedDate, {
  // Called as a function, Date writes the present time.
  apply: () => new SteppedDate().toString(),
}) as unknown as DateConstructor;
process.on('SIGUSR2', () => (ahead += step));
