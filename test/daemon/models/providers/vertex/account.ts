import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import type { GoogleCredentials } from '../../../../../src/daemon/models/config.ts'
import { replyJson, type Script } from '../../../../upstream.ts'

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

/** The key file of a service account whose tokens come from this address. */
export const keyFile = (tokenUrl: string, more: object = {}) => ({
  type: 'service_account',
  project_id: 'house-123',
  private_key_id: 'key-1',
  private_key: PEM,
  client_email: 'gateway@house-123.iam.gserviceaccount.com',
  token_uri: tokenUrl,
  ...more,
})

export const accountAt = (tokenUrl: string): GoogleCredentials => ({
  clientEmail: 'gateway@house-123.iam.gserviceaccount.com',
  privateKey: PEM,
  privateKeyId: 'key-1',
  tokenUrl,
})

/** Answers with a token, as Google does. */
export const token = (value: string, seconds = 3_600): Script =>
  replyJson({ access_token: value, expires_in: seconds, token_type: 'Bearer' })

/** Returns the header and the claims of the assertion in a request for a token, if its signature is valid. */
export function assertionIn(rawBody: string): { grantType: string | null; header: object; claims: object } {
  const form = new URLSearchParams(rawBody)
  const [header = '', claims = '', signature = ''] = form.get('assertion')?.split('.') ?? []
  const isValid = verify(
    'sha256',
    Buffer.from(`${header}.${claims}`),
    createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })),
    Buffer.from(signature, 'base64url'),
  )
  if (!isValid) throw new Error('the signature of the assertion is wrong')
  const read = (part: string): object => JSON.parse(Buffer.from(part, 'base64url').toString())
  return { grantType: form.get('grant_type'), header: read(header), claims: read(claims) }
}
