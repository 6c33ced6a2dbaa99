import { measure, type MetricType, refuseInInit, stage } from './stage.js';

const NAME = /^[a-zA-Z_][a-zA-Z0-9_]{0,127}$/;

abstract class Metric {
  constructor(
    readonly name: string,
    private readonly type: MetricType,
  ) {
    if (stage.phase !== 'init') throw new Error('metrics are made in the init context');
    if (!NAME.test(name)) throw new Error(`${name} is no name of a metric`);
    if ((stage.metrics.get(name) ?? type) !== type) throw new Error(`${name} is there with another type`);
    stage.metrics.set(name, type);
  }

  add(value: number | boolean, tags: Record<string, string> = {}): void {
    refuseInInit('add');
    const number = this.type === 'rate' ? Number(Boolean(value)) : Number(value);
    if (!Number.isFinite(number)) throw new Error(`${this.name} is given ${String(value)}`);
    measure(this.name, number, tags);
  }
}

export class Counter extends Metric {
  constructor(name: string) {
    super(name, 'counter');
  }
}

export class Rate extends Metric {
  constructor(name: string) {
    super(name, 'rate');
  }
}

export class Trend extends Metric {
  constructor(name: string) {
    super(name, 'trend');
  }
}
