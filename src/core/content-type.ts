export const JSON_TYPE = 'application/json';

/** RFC 6838: a structured syntax suffix `+json` says that the content is JSON. */
export function isJsonType(type: string): boolean {
  if (type === JSON_TYPE) return true;
  const essence = type.split(';', 1)[0]!.trim().toLowerCase();
  return essence === JSON_TYPE || essence.endsWith('+json');
}
