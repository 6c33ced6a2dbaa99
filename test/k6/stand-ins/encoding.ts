function b64encode(input: string | ArrayBuffer): string {
  return Buffer.from(input as string).toString('base64');
}

export default { b64encode };
