import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createReach } from '../../src/events/networks.js';
import { createPoster } from '../../src/events/poster.js';
import { readRetryAfter } from '../../src/events/retry-after.js';

/** What must never be reached, as addresses and as an URL's host may spell them. */
const FORBIDDEN = [
  '0.0.0.0',
  '10.1.2.3',
  '100.64.0.1',
  '127.0.0.1',
  '127.255.255.254',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.8',
  '192.168.0.1',
  '198.18.0.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:a9fe:a9fe',
  '::127.0.0.1',
  '64:ff9b::10.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b:1::1',
  '2002:7f00:1::',
  '2002:a9fe:a9fe::1',
  '2001::1',
  '2001:db8::1',
  'fc00::1',
  'fd12:3456::1',
  'fe80::1',
  'fe80::1%eth0',
  'ff02::1',
  'nonsense',
];
const PUBLIC = ['93.184.216.34', '172.32.0.1', '2606:4700::1111', '64:ff9b::808:808', '2002:808:808::1'];

describe('which addresses may be reached', () => {
  const reachOf = createReach([]);

  it('is told apart by what they are, inside IPv6 too', () => {
    for (const address of FORBIDDEN) assert.equal(reachOf(address), 'forbidden', address);
    for (const address of PUBLIC) assert.equal(reachOf(address), 'public', address);
  });

  it('is widened by the operator alone', () => {
    const widened = createReach(['10.0.0.0/8', 'fd00::/8', '169.254.169.254']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd12::1', '169.254.169.254', '64:ff9b::a01:203'])
      assert.equal(widened(address), 'allowed', address);
    for (const address of ['127.0.0.1', '169.254.169.253', 'fc00::1'])
      assert.equal(widened(address), 'forbidden', address);
  });
});

describe('a URL', () => {
  const faultIn = (text: string) => createPoster({ allowedNetworks: [] }).faultIn(text);

  for (const [url, fault] of [
    ['https://example.com/hook', undefined],
    ['https://example.com:8443/hook?x=1', undefined],
    ['https://8.8.8.8/', undefined],
    ['https://[2606:4700::1111]/', undefined],
    ['http://example.com/hook', /https/],
    ['ftp://example.com/', /https/],
    ['file:///etc/passwd', /https/],
    ['javascript:alert(1)', /https/],
    ['example.com/hook', /URL/],
    ['', /URL/],
    ['https://', /URL/],
    ['https://user@example.com/', /user name/],
    ['https://:pass@example.com/', /user name/],
    ['https://127.0.0.1/', /not public/],
    ['https://127.1/', /not public/],
    ['https://0x7f000001/', /not public/],
    ['https://2130706433/', /not public/],
    ['https://0177.0.0.1/', /not public/],
    ['https://127.0.0.1./', /not public/],
    ['https://１２７.0.0.1/', /not public/],
    ['https://[::1]/', /not public/],
    ['https://[::ffff:169.254.169.254]/', /not public/],
    ['https://169.254.169.254/latest/meta-data', /not public/],
    ['https://localhost/', /not public/],
    ['https://LOCALHOST./', /not public/],
    ['https://a.localhost:5432/', /not public/],
  ] as const) {
    it(`${url === '' ? 'that is empty' : url} is ${fault === undefined ? 'taken' : 'refused'}`, () => {
      const found = faultIn(url);
      if (fault === undefined) assert.equal(found, undefined);
      else assert.match(found ?? '', fault);
    });
  }

  it('without TLS is taken only where the operator has allowed its address, or may have', () => {
    const widened = createPoster({ allowedNetworks: ['10.0.0.0/8'] });
    for (const url of ['http://10.0.0.1/', 'http://inside.example/'])
      assert.equal(widened.faultIn(url), undefined, url);
    for (const url of ['http://8.8.8.8/', 'http://127.0.0.1/', 'http://localhost/'])
      assert.ok(widened.faultIn(url), url);
  });
});

describe('a Retry-After', () => {
  const now = Date.parse('2031-02-03T04:05:06Z');

  it('is seconds or a date, an hour at most', () => {
    assert.equal(readRetryAfter('120', now), 120_000);
    assert.equal(readRetryAfter('Mon, 03 Feb 2031 04:06:06 GMT', now), 60_000);
    assert.equal(readRetryAfter('999999999', now), 3_600_000);
  });

  it('that says nothing is as if it were not there', () => {
    for (const text of [undefined, '', '0', '-5', 'soon', 'Mon, 03 Feb 2031 04:00:00 GMT', '1e9'])
      assert.equal(readRetryAfter(text, now), undefined, text);
  });
});
