import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

export interface Instruction {
  readonly word: string;
  readonly rest: string;
}

/** A stage: what stands between one FROM and the next. */
export interface Stage {
  readonly name: string;
  readonly instructions: readonly Instruction[];
}

export function read(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8');
}

export function instructions(): Instruction[] {
  const lines = read('Dockerfile')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n');
  return lines
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, word, rest] = /^([A-Z]+) (.*)$/.exec(line)!;
      return { word: word!, rest: rest! };
    });
}

/** The stage of that name. Throws when there is none. */
export function stage(name: string): Stage {
  const all = instructions();
  const start = all.findIndex(({ word, rest }) => word === 'FROM' && rest.endsWith(` AS ${name}`));
  if (start === -1) throw new Error(`the Dockerfile has no stage ${name}`);
  const end = all.findIndex(({ word }, index) => index > start && word === 'FROM');
  return { name, instructions: all.slice(start + 1, end === -1 ? undefined : end) };
}

/** What follows that word in the stage. Throws unless it stands there once. */
export function only({ name, instructions: own }: Stage, word: string): string {
  const found = own.filter((instruction) => instruction.word === word);
  if (found.length !== 1) throw new Error(`the stage ${name} has ${found.length} times ${word}`);
  return found[0]!.rest;
}

/** The words of an ENTRYPOINT, CMD or HEALTHCHECK in its exec form. */
export function words(own: Stage, word: 'ENTRYPOINT' | 'CMD' | 'HEALTHCHECK'): string[] {
  return JSON.parse(only(own, word).replace(/^--.* CMD (?=\[)/, '')) as string[];
}

/** What .dockerignore lets into the build, all else being shut out. */
export function admitted(): string[] {
  const [first, ...others] = read('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (first !== '*' || !others.every((line) => line.startsWith('!'))) throw new Error('.dockerignore is no allow-list');
  return others.map((line) => line.slice(1));
}
