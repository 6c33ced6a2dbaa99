import { accessSync, constants } from 'node:fs';

/** That a file cannot be read, in words; nothing when it can. `what` says where it is named. */
export function unreadable(what: string, file: string): string[] {
  try {
    accessSync(file, constants.R_OK);
    return [];
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return [`${what} ${JSON.stringify(file)}, which cannot be read (${code}): give a file in PEM that can be read`];
  }
}
