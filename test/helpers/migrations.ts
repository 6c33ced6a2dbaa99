import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { createEmptyDatabase } from './postgres.js';

/** The URL of a database with nothing in it, dropped after the test. */
export async function emptyDatabase(t: TestContext): Promise<string> {
  const database = await createEmptyDatabase();
  t.after(() => database.drop());
  return database.url;
}

/** A directory of migrations with these files, removed after the test. */
export async function directoryWith(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const directory = path.join(await mkdtemp(path.join(tmpdir(), 'stint-migrate-')), 'migrations');
  t.after(() => rm(path.dirname(directory), { recursive: true, force: true }));
  await mkdir(directory);
  for (const [name, sql] of Object.entries(files)) await writeFile(path.join(directory, name), sql);
  return directory;
}
