/** Deliveries that an instance has under way: bounded in all, and for each tenant so that none keeps the others from theirs. */
export class Slots {
  private total = 0;
  private readonly byTenant = new Map<string, number>();

  constructor(
    private readonly most: number,
    private readonly mostOfTenant: number,
  ) {}

  /** Takes up to `wanted` places; answers how many there were. */
  take(tenantId: string, wanted: number): number {
    const own = this.byTenant.get(tenantId) ?? 0;
    const taken = Math.max(0, Math.min(wanted, this.most - this.total, this.mostOfTenant - own));
    this.total += taken;
    if (taken > 0) this.byTenant.set(tenantId, own + taken);
    return taken;
  }

  give(tenantId: string, places: number): void {
    this.total -= places;
    const own = (this.byTenant.get(tenantId) ?? 0) - places;
    if (own > 0) this.byTenant.set(tenantId, own);
    else this.byTenant.delete(tenantId);
  }
}
