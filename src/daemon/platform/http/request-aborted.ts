/** The reason for aborting a request's signal: its client disconnected, or the drain timed out. */
export class RequestAborted extends Error {
  override name = 'RequestAborted'
  readonly by: 'client' | 'shutdown'
  constructor(by: 'client' | 'shutdown') {
    super(by === 'client' ? 'the client disconnected' : 'the gateway is shutting down')
    this.by = by
  }
}
