import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** The version in the package.json nearest above this file, compiled or not. */
export function version(): string {
  let directory = import.meta.dirname;
  while (!existsSync(path.join(directory, 'package.json'))) directory = path.dirname(directory);
  return (JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')) as { version: string }).version;
}
