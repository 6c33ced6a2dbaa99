import { after, before, describe, it } from 'node:test';
import { randomBytes, randomInt } from 'node:crypto';
import fc from 'fast-check';
import { checkInvariants } from './helpers/invariants.js';
import { type Client, startTestService, type TestService } from './helpers/service.js';
import { checkAll, commands } from './model/commands.js';
import { type Background, createBackground } from './model/real.js';

const LANES = 4;
const RUNS_A_LANE = 40;
const MOST_COMMANDS = 60;

/** Give these to see a failure again: fast-check prints both. */
const SEED = process.env['STINT_TEST_SEED'];
const PATH = process.env['STINT_TEST_PATH'];

let service: TestService;
let client: Client;
let background: Background;

describe('the service held to a model', () => {
  before(async () => {
    service = await startTestService();
    client = await service.tenant();
    background = createBackground(service);
  });

  after(async () => {
    await background.close();
    await service.stop();
  });

  it(
    'answers every call and keeps every job as the contract says, whatever callers do and time brings',
    { timeout: 240_000 },
    async () => {
      const lanes = SEED === undefined ? LANES : 1;
      await Promise.all(
        Array.from({ length: lanes }, () => holdToModel(SEED === undefined ? randomInt(2 ** 31) : Number(SEED))),
      );
      await checkInvariants(service);
    },
  );
});

async function holdToModel(seed: number): Promise<void> {
  const property = fc.asyncProperty(
    fc.commands(commands(), { maxCommands: MOST_COMMANDS, size: 'max' }),
    async (sequence) => {
      const queue = `model-${randomBytes(6).toString('hex')}`;
      await client.put(`/v1/queues/${queue}`, { visibilityTimeout: '1h', retry: { type: 'fixed', delays: ['1h'] } });
      const model = { jobs: [], paused: false, step: 1 };
      const real = { client, queue, service, background };
      await fc.asyncModelRun(() => ({ model, real }), sequence);
      await checkAll(model, real);
    },
  );
  await fc.assert(property, {
    seed,
    numRuns: RUNS_A_LANE,
    plugins: [fc.interruptAfterTimeLimit(120_000)],
    includeErrorInReport: true,
    ...(PATH === undefined ? {} : { path: PATH }),
  });
}
