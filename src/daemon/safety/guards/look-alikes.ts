/**
 * For each Latin letter, the characters that look like it: same shape as the small letter, same shape as the capital
 * letter, or similar shape. Characters that Unicode normalization already maps (full width, accents) are not listed.
 */
const LOOK_ALIKES: Record<string, [lower: string, capital: string, resembling: string]> = {
  a: ['аαɑᴀ', 'АΑ', ''],
  b: ['вʙ', 'ВΒ', 'ЬβƄ'],
  c: ['сᴄ', 'С', ''],
  d: ['ԁᴅ', '', 'ɗժ'],
  e: ['еεᴇ℮', 'ЕΕ', 'єҽ'],
  f: ['', '', 'ƒғϝ'],
  g: ['ɡɢ', '', 'ցԍ'],
  h: ['нһհʜ', 'НΗ', ''],
  i: ['іιɩɪ', 'ІΙ', ''],
  j: ['јᴊ', 'Ј', 'ϳ'],
  k: ['кκᴋ', 'КΚ', 'ҝ'],
  l: ['ӏʟ', '', ''],
  m: ['мᴍ', 'МΜ', 'μⅿ'],
  n: ['пηոɴ', 'Ν', 'ռ'],
  o: ['оοօᴏ', 'ОΟ', 'σ'],
  p: ['рρᴘ', 'РΡ', ''],
  q: ['ԛ', '', ''],
  r: ['гʀ', '', 'ɾ'],
  s: ['ѕꜱ', 'Ѕ', 'ʂ'],
  t: ['тτᴛ', 'ТΤ', ''],
  u: ['υսᴜ', '', 'цʋ'],
  v: ['ѵνᴠ', 'Ѵ', 'ⅴ'],
  w: ['ԝωᴡ', '', 'шա'],
  x: ['хχ', 'ХΧ', ''],
  y: ['уγʏ', 'УΥ', ''],
  z: ['ᴢ', 'Ζ', 'ζʐ'],
}

const byCharacter = (letterOf: (latin: string, column: number) => string, columns: readonly number[]) =>
  new Map(
    Object.entries(LOOK_ALIKES).flatMap(([latin, shapes]) =>
      columns.flatMap((column) =>
        Array.from(shapes[column] ?? '', (other) => [other, letterOf(latin, column)] as const),
      ),
    ),
  )

/** Maps each character of the same shape to its Latin letter, keeping the case. */
export const SAME_SHAPE: ReadonlyMap<string, string> = byCharacter(
  (latin, column) => (column === 1 ? latin.toUpperCase() : latin),
  [0, 1],
)

/** Maps each look-alike character to its Latin letter in lower case. */
export const ANY_SHAPE: ReadonlyMap<string, string> = byCharacter((latin) => latin, [0, 1, 2])
