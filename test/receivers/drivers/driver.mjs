// Reads one vector per line: body, header and secrets in Base64, tolerance and now. `-` means missing, and `=` marks a
// text instead of a list. Prints 1 or 0 per line.
import { readFileSync } from 'node:fs'
import { verify } from './verify.mjs'

const bytes = (text) => Buffer.from(text, 'base64')
for (const line of readFileSync(0, 'latin1').split('\n').filter(Boolean)) {
  const [body, header, secrets, tolerance, now] = line.split('\t')
  const list = () => secrets.split(',').map((secret) => (secret === '-' ? undefined : bytes(secret).toString()))
  const given = secrets.startsWith('=') ? bytes(secrets.slice(1)).toString() : list()
  const text = header === '-' ? undefined : bytes(header).toString()
  process.stdout.write(verify(bytes(body), text, given, Number(tolerance), Number(now)) ? '1\n' : '0\n')
}
