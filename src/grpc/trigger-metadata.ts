/** The metadata of a trigger of KEDA, as an operation of the scaler takes them. */
type Metadata = Readonly<Record<string, string>>;

/** Of what KEDA itself reads of them; it hands all of them on. */
const KEDAS_OWN = new Set([
  'scalerAddress',
  'enableTLS',
  'unsafeSsl',
  'caCert',
  'tlsCertFile',
  'tlsClientCert',
  'tlsClientKey',
]);
const NUMBERS = new Set(['targetPerReplica', 'activationThreshold']);
const CREDENTIAL = 'apiKey';
/** KEDA puts the variable's value in the place of its name, and leaves the key as it is. */
const FROM_ENV = 'FromEnv';

/** A message that has them: a ScaledObjectRef. */
export interface ScaledObjectRef {
  readonly scalerMetadata?: Metadata;
}

/**
 * Turns them into the input's form: lists and numbers out of text. What is not a number stays as it is, and what is not known is handed
 * on too, so that the operation's own schema refuses it by name.
 */
export function triggerOf({ scalerMetadata = {} }: ScaledObjectRef): Record<string, unknown> {
  const trigger: Record<string, unknown> = {};
  for (const [key, text] of Object.entries(scalerMetadata)) {
    const name = withoutSuffix(key);
    if (name === CREDENTIAL || KEDAS_OWN.has(name)) continue;
    if (name !== key && name in scalerMetadata) continue;
    trigger[name] = valueOf(name, text.trim());
  }
  return trigger;
}

/** The credential among them, as it would stand in `authorization`. */
export function credentialOf({ scalerMetadata = {} }: ScaledObjectRef): string | undefined {
  const key = (scalerMetadata[CREDENTIAL] ?? scalerMetadata[CREDENTIAL + FROM_ENV])?.trim();
  return key === undefined || key === '' ? undefined : `Bearer ${key}`;
}

function withoutSuffix(key: string): string {
  return key.endsWith(FROM_ENV) ? key.slice(0, -FROM_ENV.length) : key;
}

function valueOf(name: string, text: string): unknown {
  if (name === 'queue') return text.split(',').map((queue) => queue.trim());
  if (!NUMBERS.has(name) || text === '') return text;
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}
