import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Engine } from '../../src/hotpath/engine.js';
import { createTaskRunner, type Task } from '../../src/tasks/runner.js';
import { until } from '../queues/room.js';

function runnerOf(...tasks: Task[]) {
  const measured: [string, string, object | undefined][] = [];
  const logged: string[] = [];
  const runner = createTaskRunner({
    tasks,
    engine: {} as Engine,
    metrics: { task: (name, result, _seconds, counts) => void measured.push([name, result, counts]) },
    log: {
      error: (_: unknown, message: string) => void logged.push(`error: ${message}`),
      info: (_: unknown, message: string) => void logged.push(`info: ${message}`),
    } as never,
  });
  return { runner, measured, logged };
}

test('a task runs again and again until the runner stops, and every run is measured', async () => {
  let runs = 0;
  const { runner, measured } = runnerOf({
    name: 'a',
    every: 5,
    run: () => Promise.resolve({ counts: { runs: ++runs } }),
  });
  runner.start();
  await until(() => runs >= 3);
  await runner.stop();
  const after = runs;
  assert.deepEqual(measured[0], ['a', 'ok', { runs: 1 }]);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(runs, after);
  assert.equal(measured.length, after);
});

test('a task that says "again" runs again at once', async () => {
  let runs = 0;
  const { runner } = runnerOf({
    name: 'a',
    every: 1_000,
    run: () => Promise.resolve({ counts: {}, again: ++runs < 50 }),
  });
  runner.start();
  await until(() => runs === 50);
  await runner.stop();
});

test('stop ends a chain of "again" and waits for the run under way', async () => {
  let running = 0;
  let ended = 0;
  const { runner } = runnerOf({
    name: 'a',
    every: 1,
    run: async () => {
      running += 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
      ended += 1;
      return { counts: {}, again: true };
    },
  });
  runner.start();
  await until(() => running === 1);
  await runner.stop();
  assert.equal(running, ended);
  const before = running;
  await new Promise((resolve) => setTimeout(resolve, 40));
  assert.equal(running, before);
});

test('a task that found nothing to do waits for longer, and no longer once it has found something', async () => {
  let runs = 0;
  const { runner } = runnerOf({
    name: 'a',
    every: 1,
    whenIdle: 60_000,
    run: () => Promise.resolve({ counts: { found: runs++ < 3 ? 1 : 0 } }),
  });
  runner.start();
  await until(() => runs === 4);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(runs, 4);
  await runner.stop();
});

test('a task never runs beside itself, whoever starts it', async () => {
  let inside = 0;
  let most = 0;
  const task: Task = {
    name: 'a',
    every: 1,
    run: async () => {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 3));
      inside -= 1;
      return { counts: { done: 1 } };
    },
  };
  const { runner } = runnerOf(task);
  runner.start();
  const results = await Promise.all(Array.from({ length: 10 }, () => runner.runOnce('a')));
  await runner.stop();
  assert.equal(most, 1);
  assert.deepEqual(results[9], { counts: { done: 1 } });
});

test('one slow task does not hold up another', async () => {
  let release = () => {};
  let runs = 0;
  const slow: Task = {
    name: 'slow',
    every: 1,
    run: () => new Promise((resolve) => (release = () => resolve({ counts: {} }))),
  };
  const { runner } = runnerOf(slow, {
    name: 'quick',
    every: 1,
    run: () => Promise.resolve({ counts: { runs: ++runs } }),
  });
  runner.start();
  await until(() => runs > 5);
  release();
  await runner.stop();
});

test('a failing task is tried again with a pause, and logged once for each streak', async () => {
  let runs = 0;
  const { runner, logged, measured } = runnerOf({
    name: 'a',
    every: 1,
    run: () => {
      runs += 1;
      return runs <= 2 ? Promise.reject(new Error('no')) : Promise.resolve({ counts: {} });
    },
  });
  const started = performance.now();
  runner.start();
  await until(() => runs >= 4);
  await runner.stop();
  assert.ok(performance.now() - started >= 1400, 'half a second, then a second');
  assert.deepEqual(logged, ['error: a background task failed', 'info: a background task works again']);
  assert.deepEqual(
    measured.slice(0, 3).map(([, result]) => result),
    ['error', 'error', 'ok'],
  );
});

test('a task that may take a tenth of the time pauses nine times as long as it ran, however soon it is due', async () => {
  const starts: number[] = [];
  const { runner } = runnerOf({
    name: 'a',
    every: 1,
    share: 0.1,
    run: async () => {
      starts.push(performance.now());
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { counts: {}, next: 0 };
    },
  });
  runner.start();
  await until(() => starts.length >= 3);
  await runner.stop();
  // A timer may fire a millisecond early.
  assert.ok(starts[2]! - starts[0]! >= 2 * 195, `two runs and pauses in ${starts[2]! - starts[0]!} ms`);
});

test('runOnce tells what the task throws, and refuses a name it does not know', async () => {
  const { runner } = runnerOf({ name: 'a', every: 1, run: () => Promise.reject(new Error('no')) });
  await assert.rejects(runner.runOnce('a'), /^Error: no$/);
  await assert.rejects(runner.runOnce('b'), /no task is called b/);
  await runner.stop();
});
