/**
 * What is there at once or comes later. On the path of every call most things are there: awaiting them all the same, a promise and a
 * suspended function each, took a third of what an enqueue allocates. So it is `x instanceof Promise ? await x : x`.
 */
export type Eventual<T> = T | Promise<T>;
