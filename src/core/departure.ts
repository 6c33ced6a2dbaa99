/**
 * A caller that goes before it has its answer: an AbortSignal in small, since one of those for every lease costs more than the
 * rest of what a lease remembers.
 */
export class Departure {
  #happened = false;
  #listeners: (() => void)[] | undefined;

  /** Whether the caller is gone. */
  get happened(): boolean {
    return this.#happened;
  }

  /** Calls `listener` once when the caller goes; at once when it is gone already. */
  listen(listener: () => void): void {
    if (this.#happened) listener();
    else if (this.#listeners === undefined) this.#listeners = [listener];
    else this.#listeners.push(listener);
  }

  /** Takes a listener back. */
  unlisten(listener: () => void): void {
    const index = this.#listeners?.indexOf(listener) ?? -1;
    if (index >= 0) this.#listeners!.splice(index, 1);
  }

  /** The caller is gone. Telling it again changes nothing. */
  tell(): void {
    if (this.#happened) return;
    this.#happened = true;
    const listeners = this.#listeners ?? [];
    this.#listeners = undefined;
    for (const listener of listeners) listener();
  }
}
