import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createAddressOf } from '../../src/core/address.js';

describe('the address of a caller without trusted proxies', () => {
  const addressOf = createAddressOf([]);

  it('is that of the peer, whatever the header says', () => {
    assert.equal(addressOf('192.0.2.7', undefined), '192.0.2.7');
    assert.equal(addressOf('192.0.2.7', '203.0.113.1'), '192.0.2.7');
    assert.equal(addressOf('127.0.0.1', '203.0.113.1, 127.0.0.1'), '127.0.0.1');
  });

  it('has one form: IPv4 as IPv4, IPv6 shortened, no zone', () => {
    assert.equal(addressOf('::ffff:192.0.2.7', undefined), '192.0.2.7');
    assert.equal(addressOf('::ffff:c000:207', undefined), '192.0.2.7');
    assert.equal(addressOf('2001:DB8:0:0:0:0:0:1', undefined), '2001:db8::1');
    assert.equal(addressOf('fe80::1%eth0', undefined), 'fe80::1');
  });

  it('is unknown when the connection is gone', () => {
    assert.equal(addressOf(undefined, '203.0.113.1'), 'unknown');
    assert.equal(addressOf('', undefined), 'unknown');
  });
});

describe('the address of a caller behind trusted proxies', () => {
  const addressOf = createAddressOf(['10.0.0.0/8', '192.0.2.7', '2001:db8:1::/48', '::1']);

  it('is the last one in the header that is no trusted proxy’s', () => {
    assert.equal(addressOf('10.1.2.3', '203.0.113.1'), '203.0.113.1');
    assert.equal(addressOf('10.1.2.3', '198.51.100.9, 203.0.113.1'), '203.0.113.1', 'the first was sent by the second');
    assert.equal(addressOf('::ffff:10.1.2.3', '198.51.100.9, 203.0.113.1,10.9.9.9 ,192.0.2.7'), '203.0.113.1');
    assert.equal(addressOf('2001:db8:1::5', '2001:db8:2::1'), '2001:db8:2::1');
    assert.equal(addressOf('::1', '2001:db8:2::1, ::ffff:10.0.0.1'), '2001:db8:2::1');
  });

  it('is the peer when that is no trusted proxy', () => {
    assert.equal(addressOf('203.0.113.1', '198.51.100.9'), '203.0.113.1');
    assert.equal(addressOf('192.0.2.8', '198.51.100.9'), '192.0.2.8');
    assert.equal(addressOf('2001:db8:2::1', '198.51.100.9'), '2001:db8:2::1');
    assert.equal(addressOf(undefined, '198.51.100.9'), 'unknown');
  });

  it('is the farthest proxy when there are only such', () => {
    assert.equal(addressOf('10.1.2.3', undefined), '10.1.2.3');
    assert.equal(addressOf('10.1.2.3', '10.0.0.1, 10.0.0.2'), '10.0.0.1');
  });

  it('is the last proxy that could be believed when what comes before it is garbage', () => {
    for (const garbage of [
      '',
      'unknown',
      '_hidden',
      '203.0.113',
      '203.0.113.256',
      '203.0.113.1:70x',
      '[::1',
      "'; --",
    ]) {
      assert.equal(addressOf('10.1.2.3', `203.0.113.1, ${garbage}`), '10.1.2.3', garbage);
      assert.equal(addressOf('10.1.2.3', `203.0.113.1, ${garbage}, 10.0.0.2`), '10.0.0.2', garbage);
    }
  });

  it('is read from entries with ports and brackets', () => {
    assert.equal(addressOf('10.1.2.3', '203.0.113.1:4711'), '203.0.113.1');
    assert.equal(addressOf('10.1.2.3', '[2001:db8:2::1]:4711'), '2001:db8:2::1');
    assert.equal(addressOf('10.1.2.3', '[2001:db8:2::1]'), '2001:db8:2::1');
  });

  it('cannot be forged, whatever a caller sends before what the proxy adds', () => {
    const addresses = fc.oneof(fc.ipV4(), fc.ipV6());
    const sent = fc.array(fc.oneof(addresses, fc.string({ maxLength: 20 }), fc.constant('10.0.0.1')), { maxLength: 6 });
    const caller = fc.ipV4().filter((address) => !address.startsWith('10.') && address !== '192.0.2.7');
    fc.assert(
      fc.property(sent, caller, (forged, address) => {
        assert.equal(addressOf('10.1.2.3', [...forged, address].join(', ')), address);
        assert.equal(addressOf('10.1.2.3', [...forged, address, '10.0.0.9'].join(',')), address);
      }),
    );
  });
});

describe('ranges of trusted proxies', () => {
  it('may be everything of a family', () => {
    const addressOf = createAddressOf(['0.0.0.0/0']);
    assert.equal(addressOf('198.51.100.9', '2001:db8::1, 203.0.113.1'), '2001:db8::1');
    assert.equal(createAddressOf(['::/0'])('2001:db8::2', '2001:db8::1'), '2001:db8::1');
  });

  it('hold their first and last address and no other', () => {
    const addressOf = createAddressOf(['10.20.30.64/26']);
    const trusts = (peer: string): boolean => addressOf(peer, '203.0.113.1') === '203.0.113.1';
    assert.deepEqual(['10.20.30.63', '10.20.30.64', '10.20.30.127', '10.20.30.128'].map(trusts), [
      false,
      true,
      true,
      false,
    ]);
  });
});
