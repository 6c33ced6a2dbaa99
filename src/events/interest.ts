/** Whether any tenant has a webhook, as it was last seen: while none has, one statement now and then is all that webhooks cost. */
export class Interest {
  private wanted = true;

  get isWanted(): boolean {
    return this.wanted;
  }

  seen(isWanted: boolean): void {
    this.wanted = isWanted;
  }
}
