import path from 'node:path';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import type { GrpcAnswer, GrpcCall } from './caller.js';

/** What protojson shows: names in lowerCamelCase, also what is empty; 64-bit integers as strings, bytes in base64, enums by name. */
const AS_JSON = { longs: String, enums: String, bytes: String, defaults: true } as const;

const clients = new Map<string, Client>();
let contract: protobuf.Root | undefined;

/** Makes a unary call; an error status is an answer, a message that the contract does not know a fault. */
export async function callGrpc(call: GrpcCall): Promise<GrpcAnswer> {
  const [serviceName, methodName] = call.method.split('/') as [string, string];
  contract ??= load(call.proto);
  const method = contract.lookupService(serviceName).methods[methodName];
  if (method === undefined) throw new Error(`there is no method ${call.method}`);
  method.resolve();
  const [asked, told] = [method.resolvedRequestType!, method.resolvedResponseType!];
  const request = asked.fromObject(fromJson(asked, call.message));
  const start = performance.now();
  return new Promise((resolve) => {
    clientOf(call.target).makeUnaryRequest<protobuf.Message, protobuf.Message>(
      `/${call.method}`,
      (message) => Buffer.from(asked.encode(message).finish()),
      (bytes) => told.decode(bytes),
      request,
      metadataOf(call.metadata),
      { deadline: Date.now() + call.timeoutMs },
      (error: ServiceError | null, answer) => {
        const milliseconds = performance.now() - start;
        if (error !== null) resolve({ status: error.code, error: error.details, message: null, milliseconds });
        else resolve({ status: 0, error: '', message: toJson(told, answer!), milliseconds });
      },
    );
  });
}

function load(directory: string): protobuf.Root {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => (path.isAbsolute(target) ? target : path.join(directory, target));
  root.loadSync('stint/v1/jobs.proto');
  root.resolveAll();
  return root;
}

function clientOf(target: string): Client {
  const client = clients.get(target) ?? new Client(target, credentials.createInsecure());
  clients.set(target, client);
  return client;
}

function metadataOf(pairs: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(pairs)) metadata.set(name, value);
  return metadata;
}

/** What `fromObject` takes, from the JSON form. A field that the contract does not have is a fault, as it is to protojson. */
function fromJson(type: protobuf.Type, json: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => {
      const field = type.fields[name];
      if (field === undefined) throw new Error(`${type.name} has no field ${name}`);
      const one = (item: unknown): unknown => fieldFromJson(field.resolve(), item);
      return [name, Array.isArray(value) ? value.map(one) : one(value)];
    }),
  );
}

function fieldFromJson(field: protobuf.Field, value: unknown): unknown {
  const type = field.resolvedType;
  if (!(type instanceof protobuf.Type) || field.map) return value;
  if (type.fullName !== '.google.protobuf.Duration') return fromJson(type, value as object);
  const [, seconds, fraction = ''] = /^(\d+)(?:\.(\d{1,9}))?s$/.exec(String(value)) ?? [];
  if (seconds === undefined) throw new Error(`${field.name} is no duration: ${String(value)}`);
  return { seconds: Number(seconds), nanos: Number(fraction.padEnd(9, '0')) };
}

function toJson(type: protobuf.Type, message: protobuf.Message): object {
  return type.toObject(message, AS_JSON);
}
