import { Type, type TObject } from 'typebox';
import type { HttpForm } from '../core/operation.js';
import { invalidField } from '../errors.js';
import { parseLeaseToken } from './lease-token.js';
import { type Settled, single } from './outcome.js';

interface OneInput {
  readonly id: string;
  readonly leaseToken: string;
}

/** The route for one lease, `/v1/jobs/{id}/…`: an item without its list, and the outcome as a status. */
export function oneLease(item: TObject, result: TObject): HttpForm {
  return {
    input: Type.Object({ id: Type.String({ format: 'uuid' }), ...item.properties }),
    output: result,
    toInput: ({ id, ...rest }: OneInput) => {
      const token = parseLeaseToken(rest.leaseToken);
      if (token === undefined) throw invalidField('leaseToken', 'is not a lease token of this service');
      if (token.jobId !== id.toLowerCase()) throw invalidField('leaseToken', 'is of another job than id');
      return { items: [rest] };
    },
    toOutput: ({ results }: { readonly results: readonly Settled[] }) => single(results),
  };
}
