// Signs calls to Amazon Bedrock.
import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto'
import { SignatureV4 } from '@smithy/signature-v4'
import type { AwsCredentials } from '../../config.ts'
import type { CallBody } from '../../provider.ts'

export type SignedPost = { url: URL; path: string; headers: Readonly<Record<string, string>>; body: CallBody }

/**
 * Returns the headers of a POST, including the signature headers. `headers` must contain the host. All names are in
 * lower case.
 */
export type Signer = (request: SignedPost, nowMs: number) => Promise<Record<string, string>>

/** Signs for Amazon Bedrock with AWS Signature Version 4. A signature is valid for a few minutes. */
export function createSigner(region: string, { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials): Signer {
  const signature = new SignatureV4({
    service: 'bedrock',
    region,
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
    sha256: Sha256,
  })
  return async ({ url, path, headers, body }, nowMs) => {
    const { protocol, hostname } = url
    const isText = typeof body === 'string'
    const request = {
      method: 'POST',
      protocol,
      hostname,
      path,
      // The signer takes the hash of a large body from this header. It sends the header with every request.
      headers: { ...headers, ...(!isText && { 'x-amz-content-sha256': body.sha256 }) },
      body: isText ? body : undefined,
    }
    return (await signature.sign(request, { signingDate: new Date(nowMs) })).headers
  }
}

type Bytes = string | ArrayBuffer | ArrayBufferView

/**
 * Computes HMAC-SHA-256 if a key is given, otherwise SHA-256. Replaces AWS's JavaScript implementation, which takes ten
 * times as long and meanwhile blocks the event loop.
 */
class Sha256 {
  readonly #key: Buffer | undefined
  #hash: Hash | Hmac

  constructor(key?: Bytes) {
    this.#key = key === undefined ? undefined : toBuffer(key)
    this.#hash = this.#start()
  }

  update(data: Uint8Array): void {
    this.#hash.update(data)
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }

  reset(): void {
    this.#hash = this.#start()
  }

  #start(): Hash | Hmac {
    return this.#key ? createHmac('sha256', this.#key) : createHash('sha256')
  }
}

function toBuffer(bytes: Bytes): Buffer {
  if (typeof bytes === 'string') return Buffer.from(bytes)
  return ArrayBuffer.isView(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : Buffer.from(bytes)
}
