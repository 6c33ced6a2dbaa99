import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type TSchema, Type } from 'typebox';
import { compileMessage } from '../../src/grpc/field-codec.js';
import { Protos } from '../../src/grpc/protos.js';
import { operations } from '../../src/operations.js';

const SERVICES = ['Jobs', 'Queues', 'Schedules', 'Events', 'Account', 'Admin'] as const;
/** Made of the operations Lease and Settle. */
const STREAMS = ['Jobs.Work'];

describe('the contract in proto and the operation table', () => {
  const protos = new Protos();
  const used = new Map<string, Set<string>>();
  const context = {
    protos,
    onEnum: (name: string, values: readonly string[]) => {
      const all = used.get(name) ?? new Set();
      for (const value of values) all.add(value);
      used.set(name, all);
    },
  };
  const bind = (schema: TSchema, message: string) => compileMessage(schema, message, context);

  it('have the same operations', () => {
    const inProto = SERVICES.flatMap((name) => Object.keys(protos.service(name)).map((method) => `${name}.${method}`));
    const inTable = operations.map(({ group, name }) => `${group}.${name}`);
    assert.deepEqual(inProto.sort(), [...inTable, ...STREAMS].sort());
  });

  it('have the same fields, of the same types, optional and required alike', () => {
    for (const { group, name, input, output } of operations) {
      const method = protos.service(group)[name] as any;
      bind(input, `stint.v1.${method.requestType.type.name}`);
      bind(output, `stint.v1.${method.responseType.type.name}`);
    }
    assert.ok(used.size > 5);
  });

  it('have the same values of their enums', () => {
    for (const [name, values] of used) {
      const unspecified = [...values][0]!.replace(/_[A-Z]+$/, '');
      assert.deepEqual(
        protos.values(name).filter((value) => !values.has(value) && !value.endsWith('_UNSPECIFIED')),
        [],
        unspecified,
      );
      assert.match(protos.values(name)[0]!, /_UNSPECIFIED$/);
    }
  });

  for (const [what, schema, fault] of [
    ['a field that proto lacks', { name: Type.String(), more: Type.String() }, /has no field for more/],
    ['a field that the table lacks', {}, /name is not in the table/],
    ['another type', { name: Type.Integer() }, /is TYPE_STRING .*not the table's integer/],
    ['a list for one', { name: Type.Array(Type.String()) }, /not the table's array/],
    [
      'what is optional in the table alone',
      { name: Type.Optional(Type.String()) },
      /is optional in the table, not in proto/,
    ],
  ] as const) {
    it(`do not fit with ${what}`, () => {
      assert.throws(() => bind(Type.Object(schema), 'stint.v1.DeleteQueueResponse'), fault);
    });
  }

  it('do not fit with a value that the enum lacks', () => {
    const schema = Type.Object({ queue: Type.String(), reason: Type.Enum(['final', 'bored']) });
    assert.throws(() => bind(schema, 'stint.v1.DeadFrom'), /has no DEAD_REASON_BORED/);
  });
});
