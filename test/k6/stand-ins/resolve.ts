/** The modules of k6 that have a stand-in, by specifier. */
const STAND_INS: Readonly<Record<string, string>> = {
  k6: 'k6.js',
  'k6/encoding': 'encoding.js',
  'k6/execution': 'execution.js',
  'k6/http': 'http.js',
  'k6/metrics': 'metrics.js',
  'k6/net/grpc': 'grpc.js',
};

type Resolve = (specifier: string, context: object) => Promise<{ url: string; shortCircuit?: boolean }>;

/** A hook of the module loader: gives what imports k6 the stand-ins of this folder; what has none is refused by its name. */
export async function resolve(
  specifier: string,
  context: object,
  next: Resolve,
): Promise<{ url: string; shortCircuit?: boolean }> {
  if (specifier !== 'k6' && !specifier.startsWith('k6/')) return next(specifier, context);
  const file = STAND_INS[specifier];
  if (file === undefined) throw new Error(`there is no stand-in for ${specifier}`);
  return { url: new URL(file, import.meta.url).href, shortCircuit: true };
}
