/** Decides whether to use colours, and applies them. */

type ColourInput = {
  /** The value of `--color`. */
  flag: string | undefined
  env: Record<string, string | undefined>
  isTerminal: boolean
}

const isSet = (value: string | undefined): value is string => value !== undefined && value !== ''
const isOff = (value: string): boolean => value === '0' || value === 'false'

/**
 * Whether to colour one stream. The first of these settings that is set takes precedence: `--color always|never`,
 * NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, TERM=dumb, CLICOLOR=0. If no setting is set, only terminals get colours
 * (no-color.org, bixense.com/clicolors).
 */
export function mayColour({ flag, env, isTerminal }: ColourInput): boolean {
  if (flag === 'always') return true
  if (flag === 'never' || isSet(env.NO_COLOR)) return false
  if (isSet(env.FORCE_COLOR)) return !isOff(env.FORCE_COLOR)
  if (isSet(env.CLICOLOR_FORCE)) return !isOff(env.CLICOLOR_FORCE)
  if (env.TERM === 'dumb' || env.CLICOLOR === '0') return false
  return isTerminal
}

type Style = 'bold' | 'red' | 'dim' | 'cyan' | 'italic' | 'underline' | 'strikethrough'
export type Painter = Record<Style, (text: string) => string>

const same = (text: string): string => text
const PLAIN: Painter = {
  bold: same,
  red: same,
  dim: same,
  cyan: same,
  italic: same,
  underline: same,
  strikethrough: same,
}

/** Loads chalk only if colours are used. The caller must check NO_COLOR, because chalk ignores it. */
export async function createPainter(colour: boolean): Promise<Painter> {
  if (!colour) return PLAIN
  const { Chalk } = await import('chalk')
  return new Chalk({ level: 1 })
}
