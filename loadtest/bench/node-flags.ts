import { readFileSync } from 'node:fs';

/** The flags with which `npm start` runs Node. A server beside the service gets the same. */
export const NODE_FLAGS: readonly string[] = readFlags();

function readFlags(): string[] {
  const manifest = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    readonly scripts: { readonly start: string };
  };
  return manifest.scripts.start.split(' ').filter((word) => word.startsWith('--'));
}
