/** Finds a receipt in a file, on stdin, or at the gateway. */
import { stat } from 'node:fs/promises'
import { isBundle, type ReceiptBundle } from '../../shared/evidence/bundle.ts'
import { isObject } from '../../shared/evidence/keys.ts'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import { readText, toUtf8 } from '../input/text-input.ts'
import { readStdin } from '../io.ts'
import { findAtPath } from '../output/formats.ts'
import { itemIn } from '../resources/resolve.ts'
import { hasDoubledMember } from './doubled-members.ts'
import { parseJson } from './shapes.ts'

/** Maximum size of the input, far larger than any receipt. */
const RECEIPT_BYTES = 1_048_576
const BUNDLE_ID = /^[\w.:-]{1,128}$/

/** GET /receipts/{bundleId}. Throws an error with exit code 3 if it is not found. */
export async function fetchReceipt(context: CliContext, bundleId: string): Promise<{ receipt: object; raw: Buffer }> {
  const api = await context.api()
  const { body, raw } = await api.send({ method: 'GET', path: `receipts/${encodeURIComponent(bundleId.trim())}` })
  return { receipt: itemIn<object>(body, 'receipt', api.baseUrl), raw }
}

/**
 * Reads the receipt, or the bundle of a receipt, from a file, from stdin (`-`), or from the gateway (bundle id). If a file has the same name as the
 * id, the file takes precedence.
 */
export async function findReceipt(context: CliContext, given: string): Promise<object> {
  if (given === '-') {
    if (context.io.stdin.isTTY === true) throw usageError('no receipt was given, and stdin is a terminal')
    return parseReceipt(toUtf8(await readStdin(context.io, RECEIPT_BYTES, 'the receipt'), 'stdin'), 'stdin')
  }
  const isFile = await stat(given).then(
    (found) => found.isFile(),
    () => false,
  )
  if (!isFile && BUNDLE_ID.test(given)) return (await fetchReceipt(context, given)).receipt
  return parseReceipt(await readText(given), given)
}

/** GET /receipts/{bundleId}/bundle. Throws an error with exit code 3 if the receipt is not found. */
export async function fetchBundle(context: CliContext, bundleId: string): Promise<ReceiptBundle> {
  const api = await context.api()
  const path = `receipts/${encodeURIComponent(bundleId.trim())}/bundle`
  const { body } = await api.send({ method: 'GET', path })
  const bundle = itemIn<object>(body, 'bundle', api.baseUrl)
  if (!isBundle(bundle)) throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with a bundle`, {})
  return bundle
}

/**
 * Parses a receipt, or a response body that contains a receipt. Throws an error with exit code 10 if a member is
 * duplicated. Throws a usage error for any other text.
 */
function parseReceipt(text: string, from: string): object {
  const parsed = parseJson(text)
  const bundle = findAtPath(parsed, 'bundle') ?? parsed
  const receipt = isBundle(bundle) ? bundle : (findAtPath(parsed, 'receipt') ?? parsed)
  if (!isObject(receipt)) {
    throw usageError(`${from} contains no receipt`, ['Save one:  aigw receipts show BUNDLE_ID -o json > receipt.json'])
  }
  if (hasDoubledMember(text)) {
    throw new CliError(EXIT.checkFailed, 'the receipt is invalid: it has a duplicate member', {
      code: 'RECEIPT_INVALID',
    })
  }
  return receipt
}
