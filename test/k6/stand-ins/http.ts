import { callSync } from './caller.js';
import { measure, refuseInInit } from './stage.js';

const METHODS = /^(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)$/;
const PARAMS = new Set(['headers', 'tags', 'timeout', 'responseCallback']);

type Expected = (status: number) => boolean;

interface Params {
  readonly headers?: Record<string, string>;
  readonly tags?: Record<string, string>;
  readonly timeout?: string;
  readonly responseCallback?: Expected;
}

const usual: Expected = (status) => status >= 200 && status < 400;

function request(method: string, url: string, body: string | null = null, params: Params = {}) {
  refuseInInit('http');
  if (!METHODS.test(method)) throw new Error(`${method} is no method`);
  for (const name of Object.keys(params)) if (!PARAMS.has(name)) throw new Error(`${name} is not stood in for`);
  const answer = callSync({
    kind: 'http',
    method,
    url,
    headers: params.headers ?? {},
    body,
    timeoutMs: 1000 * Number.parseFloat(params.timeout ?? '60s'),
  });
  const isExpected = (params.responseCallback ?? usual)(answer.status);
  const tags = {
    url,
    name: url,
    method,
    status: String(answer.status),
    expected_response: String(isExpected),
    ...params.tags,
  };
  measure('http_reqs', 1, tags);
  measure('http_req_duration', answer.milliseconds, tags);
  measure('http_req_failed', isExpected ? 0 : 1, tags);
  return {
    status: answer.status,
    error: answer.error,
    body: answer.error === '' ? answer.body : null,
    headers: Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [canonical(name), value])),
    timings: { duration: answer.milliseconds },
    json: (selector?: string): unknown => {
      if (selector !== undefined) throw new Error('selectors are not stood in for');
      return JSON.parse(answer.body);
    },
  };
}

/** Names of headers are as Go writes them. */
function canonical(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}

function expectedStatuses(...wanted: (number | { min: number; max: number })[]): Expected {
  return (status) =>
    wanted.some((one) => (typeof one === 'number' ? one === status : status >= one.min && status <= one.max));
}

export default {
  request,
  get: (url: string, params?: Params) => request('GET', url, null, params),
  expectedStatuses,
};
