import type { Operation } from '../core/operation.js';

/** They need the scope `manage`, but are work on one job. */
const ON_ONE_JOB: ReadonlySet<string> = new Set(['UpdateJob', 'CancelJob']);

/** Whether the operation changes how the service is set up, so that its acts stand in the audit log. */
export function isAdministrative({ name, scopes, http }: Pick<Operation, 'name' | 'scopes' | 'http'>): boolean {
  const changes = http.some(({ method }) => method !== 'GET');
  return changes && (scopes.includes('manage') || scopes.includes('admin')) && !ON_ONE_JOB.has(name);
}
