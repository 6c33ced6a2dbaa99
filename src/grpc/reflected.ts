import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { protoPath as HEALTH } from 'grpc-health-check';
import descriptor from 'protobufjs/ext/descriptor/index.js';
import { PROTO_DIRECTORY, PROTO_FILES } from './protos.js';

const { FileDescriptorProto } = descriptor;

interface Message {
  name: string;
  readonly options: { readonly mapEntry?: boolean } | null;
  readonly field: {
    typeName: string;
    oneofIndex: number | null;
    proto3Optional: boolean;
    jsonName: string;
    name: string;
  }[];
  readonly nestedType: readonly Message[];
  readonly enumType: readonly { readonly name: string }[];
  readonly oneofDecl: readonly { readonly name: string }[];
}

interface File {
  readonly name: string;
  readonly package: string;
  readonly messageType: readonly Message[];
  readonly enumType: readonly { readonly name: string }[];
  readonly service: readonly { readonly method: readonly { inputType: string; outputType: string }[] }[];
  dependency: string[];
}

/**
 * The contract as reflection tells it. The loader leaves names of types as they were written, dependencies and JSON names out, and does not
 * say which fields are `optional`; clients that check what they are told (those of Go do) refuse that, so it is completed here.
 */
export function reflectedDefinition(): PackageDefinition {
  const options = { includeDirs: [PROTO_DIRECTORY], keepCase: true };
  const encoded = [loadSync([...PROTO_FILES], options), loadSync(HEALTH, options)]
    .flatMap((loaded) => Object.values(loaded))
    .flatMap(({ fileDescriptorProtos = [] }) => fileDescriptorProtos as Uint8Array[]);
  const files = new Map<string, File>();
  for (const bytes of encoded) {
    const file = FileDescriptorProto.decode(bytes) as unknown as File;
    for (const message of file.messageType) nameEntries(message);
    files.set(file.name, file);
  }
  const homes = new Map<string, string>();
  for (const file of files.values()) for (const name of namesIn(file)) homes.set(name, file.name);
  for (const file of files.values()) complete(file, homes);
  const completed = [...files.values()].map((file) => Buffer.from(FileDescriptorProto.encode(file as never).finish()));
  return { contract: { fileDescriptorProtos: completed } } as unknown as PackageDefinition;
}

/** The pairs of a map are a message that is named after its field, with `Entry` behind. */
function nameEntries(message: Message): void {
  for (const nested of message.nestedType) {
    nameEntries(nested);
    if (nested.options?.mapEntry !== true) continue;
    const field = message.field.find(({ typeName }) => typeName === nested.name)!;
    nested.name = `${field.name.replace(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())}Entry`;
    field.typeName = nested.name;
  }
}

function namesIn(file: File): string[] {
  const within = (scope: string, { name, nestedType, enumType }: Message): string[] => {
    const own = `${scope}.${name}`;
    const inner = nestedType.flatMap((nested) => within(own, nested));
    return [own, ...inner, ...enumType.map((each) => `${own}.${each.name}`)];
  };
  const enums = file.enumType.map(({ name }) => `${file.package}.${name}`);
  return [...enums, ...file.messageType.flatMap((message) => within(file.package, message))];
}

function complete(file: File, homes: ReadonlyMap<string, string>): void {
  const needed = new Set<string>();
  const inFull = (name: string, scope: string): string => {
    const found = resolve(name, scope, homes);
    needed.add(homes.get(found)!);
    return `.${found}`;
  };
  const walk = (message: Message, scope: string): void => {
    const own = `${scope}.${message.name}`;
    for (const field of message.field) {
      if (field.typeName !== '') field.typeName = inFull(field.typeName, own);
      field.jsonName = field.name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
      const place = message.oneofDecl.findIndex(({ name }) => name === `_${field.name}`);
      if (place >= 0) Object.assign(field, { oneofIndex: place, proto3Optional: true });
    }
    for (const nested of message.nestedType) walk(nested, own);
  };
  for (const message of file.messageType) walk(message, file.package);
  for (const { method } of file.service) {
    for (const each of method) {
      each.inputType = inFull(each.inputType, file.package);
      each.outputType = inFull(each.outputType, file.package);
    }
  }
  needed.delete(file.name);
  file.dependency = [...needed];
}

/** As the language resolves a name: in the innermost scope that has it. */
function resolve(name: string, scope: string, homes: ReadonlyMap<string, string>): string {
  if (name.startsWith('.')) return name.slice(1);
  for (let outer = scope; outer !== ''; outer = outer.includes('.') ? outer.slice(0, outer.lastIndexOf('.')) : '') {
    if (homes.has(`${outer}.${name}`)) return `${outer}.${name}`;
  }
  if (!homes.has(name)) throw new Error(`no type is called ${name}, seen from ${scope}`);
  return name;
}
