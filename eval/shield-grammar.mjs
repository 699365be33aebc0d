// Expands grammars into texts. `{a|b <rule>}` expands to one of its choices, and `<rule>` expands to one alternative of
// that rule.

/** Returns a generator of random numbers from 0 to 1. The same seed gives the same sequence. */
export function randomOf(seed) {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

const MAX_DEPTH = 12

/**
 * Returns functions that expand templates.
 * @param rules alternatives by rule name, separated by `|`
 * @param made generator functions by name; they override rules
 */
export function expander(rules, random, made = {}) {
  const pick = (list) => list[Math.floor(random() * list.length)]
  const line = (name) => pick(rules[name].split('|'))

  /** Expands one template. All occurrences of `<name>` in a template expand to the same name. */
  const expand = (template) => {
    let text = template
    const chosenName = rules.name ? line('name') : ''
    for (let depth = 0; depth < MAX_DEPTH; depth++) {
      const before = text
      text = text
        .replace(/\{([^{}]*\|[^{}]*)\}/g, (_, options) => pick(options.split('|')))
        .replace(/<([a-z0-9]+)>/g, (whole, name) => {
          if (made[name]) return made[name]()
          if (name === 'name') return chosenName
          return rules[name] ? line(name) : whole
        })
      if (text === before) break
    }
    return text
  }

  /** Imitates how people type: converts some texts to lower case or to upper case. */
  const asTyped = (text) => {
    const chance = random()
    if (chance < 0.12) return text.toLowerCase()
    if (chance < 0.17) return text.toUpperCase()
    return text[0].toUpperCase() + text.slice(1)
  }
  return { expand, pick, asTyped }
}
