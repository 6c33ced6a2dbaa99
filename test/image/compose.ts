import { parse } from 'yaml';
import { read } from './dockerfile.js';

/** A service of the Compose file, its anchors resolved and its variables as they stand. */
export interface ComposeService {
  readonly image: string;
  readonly profiles?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly [member: string]: any;
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly configs: Readonly<Record<string, { readonly content: string }>>;
}

export function composeFile(): ComposeFile {
  return parse(read('docker-compose.yml'), { merge: true }) as ComposeFile;
}

/** What Compose makes of a text: variables by their defaults, `$$` is a dollar. */
export function filledIn(text: string): string {
  return text.replaceAll(/\$\$|\$\{\w+:-([^}]*)\}/g, (_, fallback: string | undefined) => fallback ?? '$');
}
