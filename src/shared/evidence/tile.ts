/** The number of hashes in a full tile (C2SP tlog-tiles). */
export const TILE_WIDTH = 256

/**
 * A tile: `width` consecutive hashes of a level, from `index` × 256 on. A hash of level L is the root over 256^L
 * entries.
 */
export type Tile = { level: number; index: number; width: number }

const LEVEL = /^(?:\d|[1-5]\d|6[0-3])$/
const WIDTH = /^[1-9]\d{0,2}$/
/** A group of three digits of the index. 2^53 has 16 digits. */
const INDEX = /^(?:x\d{3}\/){0,5}\d{3}$/

/**
 * Parses the path of a tile below the prefix of its log: `tile/<level>/<index>[.p/<width>]`. Returns undefined for any
 * other path, including an index with superfluous zeroes: each tile has one path.
 */
export function parseTilePath(path: string): Tile | undefined {
  const [tile, level = '', ...rest] = path.split('/')
  if (tile !== 'tile' || !LEVEL.test(level)) return undefined
  const width = rest.at(-2)?.endsWith('.p') ? rest.pop() : undefined
  const text = width === undefined ? rest.join('/') : rest.join('/').slice(0, -'.p'.length)
  if (!INDEX.test(text) || (width !== undefined && !(WIDTH.test(width) && Number(width) < TILE_WIDTH))) return undefined
  const index = Number(text.replace(/[x/]/g, ''))
  if (!Number.isSafeInteger(index) || tileIndexPath(index) !== text) return undefined
  return { level: Number(level), index, width: width === undefined ? TILE_WIDTH : Number(width) }
}

/** Returns the path of a tile below the prefix of its log. */
export const tilePath = ({ level, index, width }: Tile): string =>
  `tile/${level}/${tileIndexPath(index)}${width === TILE_WIDTH ? '' : `.p/${width}`}`

/** Returns an index in groups of three digits. All groups except the last begin with `x`: `x001/x234/067`. */
function tileIndexPath(index: number): string {
  const digits = String(index)
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/.{3}/g) ?? []
  return groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group)).join('/')
}

/** The number of entries that must exist before a tile of this width can be served. */
export const entriesUnder = ({ level, index, width }: Tile): number =>
  (index * TILE_WIDTH + width) * TILE_WIDTH ** level
