import { fileURLToPath } from 'node:url';
import {
  type EnumTypeDefinition,
  loadSync,
  type MessageTypeDefinition,
  type PackageDefinition,
  type ServiceDefinition,
} from '@grpc/proto-loader';

/** What the contract is loaded from; the one include directory. */
export const PROTO_DIRECTORY = fileURLToPath(new URL('../../../proto', import.meta.url));

export const PROTO_FILES: readonly string[] = [
  'stint/v1/jobs.proto',
  'stint/v1/queues.proto',
  'stint/v1/schedules.proto',
  'stint/v1/events.proto',
  'stint/v1/admin.proto',
  'stint/v1/account.proto',
  'externalscaler/externalscaler.proto',
  'google/rpc/status.proto',
  'google/rpc/error_details.proto',
];

/** A field as the loader describes it; names are in lowerCamelCase, as in the table. */
export interface ProtoField {
  readonly name: string;
  readonly repeated: boolean;
  /** `TYPE_STRING`, `TYPE_MESSAGE` and so on. */
  readonly type: string;
  /** Full name of a message or an enum; empty for scalars. */
  readonly typeName: string;
  /** A scalar whose absence is told from its zero. */
  readonly optional: boolean;
}

export interface ProtoMessage {
  readonly name: string;
  readonly fields: readonly ProtoField[];
  readonly serialize: (value: object) => Buffer;
  readonly deserialize: (bytes: Buffer) => object;
}

interface Described {
  readonly field: readonly {
    readonly name: string;
    readonly label: string;
    readonly type: string;
    readonly typeName: string;
  }[];
  readonly oneofDecl: readonly { readonly name: string }[];
}

/** The contract, loaded from the very files that clients are given. */
export class Protos {
  readonly definition: PackageDefinition;

  /** @param options whether messages that are read have their fields' defaults, as a client wants them; false unless given */
  constructor({ defaults = false }: { readonly defaults?: boolean } = {}) {
    this.definition = loadSync([...PROTO_FILES], {
      includeDirs: [PROTO_DIRECTORY],
      longs: Number,
      enums: String,
      defaults,
    });
  }

  /** The service of that name in that package. */
  service(name: string, within = 'stint.v1'): ServiceDefinition {
    return this.find(`${within}.${name}`) as ServiceDefinition;
  }

  message(name: string): ProtoMessage {
    const { type, serialize, deserialize } = this.find(name) as MessageTypeDefinition<object, object>;
    const { field, oneofDecl } = type as unknown as Described;
    const fields = field.map(({ name: own, label, type: kind, typeName }) => ({
      name: own,
      repeated: label === 'LABEL_REPEATED',
      type: kind,
      typeName: typeName === '' ? '' : this.fullName(typeName, name),
      optional: oneofDecl.some((oneof) => oneof.name === `_${own}`),
    }));
    return { name, fields, serialize, deserialize };
  }

  /** Names of the values of an enum, the unspecified one first. */
  values(name: string): string[] {
    const { type } = this.find(name) as EnumTypeDefinition;
    return (type as unknown as { value: { name: string }[] }).value.map((value) => value.name);
  }

  /** Whether the field is a map of strings. */
  isMap({ repeated, typeName }: ProtoField): boolean {
    return repeated && typeName !== '' && !(typeName in this.definition);
  }

  private find(name: string) {
    const found = this.definition[name];
    if (found === undefined) throw new Error(`proto/ has no ${name}`);
    return found;
  }

  /** A type is named as it is written in its file: from its own package, or in full. */
  private fullName(typeName: string, scope: string): string {
    if (typeName.startsWith('google.')) return typeName;
    const candidates = [`${scope}.${typeName}`, `${scope.split('.').slice(0, -1).join('.')}.${typeName}`, typeName];
    return candidates.find((name) => name in this.definition) ?? `${scope}.${typeName}`;
  }
}
