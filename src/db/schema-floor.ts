/**
 * Notices that a newer version has brought the database to a schema with which this one must no longer work: it knows the migrations
 * up to `known`. A database says with each migration from which number on versions may work with it; the highest of these is its floor.
 */
export class SchemaFloor {
  /** Resolves when the floor has risen above this version, with the reason in plain words. */
  readonly outgrown: Promise<Error>;
  #tell!: (reason: Error) => void;

  constructor(private readonly known: number) {
    this.outgrown = new Promise((resolve) => (this.#tell = resolve));
  }

  /** To be told the floor that was read; answers the reason when this version must stop. */
  seen(floor: number): Error | undefined {
    const reason = outgrownBy(floor, this.known);
    if (reason !== undefined) this.#tell(reason);
    return reason;
  }
}

/** Why a version that knows the migrations up to `known` must not work with a database of that floor; undefined when it may. */
export function outgrownBy(floor: number, known: number): Error | undefined {
  if (floor <= known) return undefined;
  return new Error(
    `the database is too new for this version of Stint: it serves versions that know its migrations up to ${padded(floor)} or ` +
      `further, and this one knows them up to ${padded(known)}. Install a newer version`,
  );
}

function padded(number: number): string {
  return String(number).padStart(4, '0');
}
