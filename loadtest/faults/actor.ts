import { Client } from './client.js';
import { Journal } from './journal.js';
import { Random } from './random.js';

/** What a producer, worker or probe is told at its start. */
export interface ActorOrders {
  readonly name: string;
  readonly seed: number;
  /** Of the two services; through the proxies, but for the probe. */
  readonly bases: readonly string[];
  readonly key: string;
  readonly journal: string;
  /** Jobs to offer; producers only. */
  readonly jobs: number;
  /** Time to offer them in; producers only. */
  readonly seconds: number;
}

/** `calm`: no misbehaving any more; `stop`: finish what is under way and end. */
export type Order = 'calm' | 'stop';

/** What actors have in common. */
export interface Actor {
  readonly orders: ActorOrders;
  readonly random: Random;
  readonly journal: Journal;
  readonly client: Client;
  readonly isCalm: () => boolean;
  readonly isStopping: () => boolean;
}

/** Reads the orders of this process and listens for more. A status may be named that its client is to expect besides success. */
export function startActor(client: { readonly expected?: number } = {}): Actor {
  const orders = JSON.parse(process.argv[2]!) as ActorOrders;
  const random = Random.for(orders.seed, orders.name);
  const journal = new Journal(orders.journal);
  const heard = new Set<Order>();
  process.on('message', (order: Order) => heard.add(order));
  // The harness is gone: so are we.
  process.on('disconnect', () => process.exit(1));
  return {
    orders,
    random,
    journal,
    client: new Client({ bases: orders.bases, key: orders.key, first: random.between(0, 1), journal, ...client }),
    isCalm: () => heard.size > 0,
    isStopping: () => heard.has('stop'),
  };
}
