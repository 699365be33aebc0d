import { hash } from 'node:crypto'

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const BECH32 = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
const ADDRESS_BYTES = 25
const BECH32_CONSTANT = 1
const BECH32M_CONSTANT = 0x2bc830a3
const GENERATORS = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3]

const LEGACY = /^[13][1-9A-HJ-NP-Za-km-z]{25,34}$/
const SEGWIT = /^(?:(?:bc|tb)1[02-9ac-hj-np-z]{11,71}|(?:BC|TB)1[02-9AC-HJ-NP-Z]{11,71})$/
/** The prefixes "bc" and "tb" (the test network), expanded as in BIP 173. */
const NETWORKS = { b: [3, 3, 0, 2, 3], t: [3, 3, 0, 20, 2] }
const ETHEREUM = /^0x[0-9a-fA-F]{40}$/
const ONE_CHARACTER = /^0x(.)\1+$/

/**
 * Whether the word is a Bitcoin address with a correct checksum (Base58Check, BIP 173, BIP 350), or has the form of an
 * Ethereum address.
 */
export function isWalletAddress(word: string): boolean {
  if (LEGACY.test(word)) return isBase58Check(word)
  if (SEGWIT.test(word)) return isSegwit(word.toLowerCase())
  return ETHEREUM.test(word) && !ONE_CHARACTER.test(word)
}

function isBase58Check(word: string): boolean {
  const bytes = new Uint8Array(ADDRESS_BYTES)
  for (const character of word) {
    let carry = BASE58.indexOf(character)
    for (let index = ADDRESS_BYTES - 1; index >= 0; index--) {
      carry += bytes[index]! * 58
      bytes[index] = carry & 0xff
      carry >>= 8
    }
    if (carry > 0) return false
  }
  const [version] = bytes
  if (version !== 0 && version !== 5) return false
  const checksum = sha256(sha256(bytes.subarray(0, 21)))
  return bytes.subarray(21).every((byte, index) => byte === checksum[index])
}

function sha256(bytes: Uint8Array): Uint8Array {
  return hash('sha256', bytes, 'buffer')
}

function isSegwit(word: string): boolean {
  const values = Array.from(word.slice(3), (character) => BECH32.indexOf(character))
  const version = values[0]!
  // A version 0 program has 20 or 32 bytes. For later versions, only a program of 32 bytes is accepted.
  if (word.length !== 62 && (version !== 0 || word.length !== 42)) return false
  let check = 1
  for (const value of [...(word[0] === 't' ? NETWORKS.t : NETWORKS.b), ...values]) {
    const top = check >>> 25
    check = ((check & 0x1ffffff) << 5) ^ value
    for (let bit = 0; bit < 5; bit++) if ((top >>> bit) & 1) check ^= GENERATORS[bit]!
  }
  return check === (version === 0 ? BECH32_CONSTANT : BECH32M_CONSTANT)
}
