/** A promise that the test resolves or rejects itself. */
export type Deferred<Value> = { promise: Promise<Value>; resolve(value: Value): void; reject(reason: unknown): void }

export function deferred<Value = void>(): Deferred<Value> {
  let resolve: Deferred<Value>['resolve'] = () => undefined
  let reject: Deferred<Value>['reject'] = () => undefined
  const promise = new Promise<Value>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
