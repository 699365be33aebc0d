// Texts from grammars: `{a|b <name>}` is one of the choices, `<name>` one line of a rule.

/** Numbers between 0 and 1, the same for the same seed. */
export function randomOf(seed) {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

const DEEPEST = 12

/**
 * @param rules lines by name, divided by `|`
 * @param made functions that make a text, by name; they come before rules
 */
export function expander(rules, random, made = {}) {
  const pick = (list) => list[Math.floor(random() * list.length)]
  const line = (name) => pick(rules[name].split('|'))

  /** A text of a template. A `<name>` is the same all through it. */
  const expand = (template) => {
    let grown = template
    const called = rules.name ? line('name') : ''
    for (let depth = 0; depth < DEEPEST; depth++) {
      const before = grown
      grown = grown
        .replace(/\{([^{}]*\|[^{}]*)\}/g, (_, options) => pick(options.split('|')))
        .replace(/<([a-z0-9]+)>/g, (whole, name) => {
          if (made[name]) return made[name]()
          if (name === 'name') return called
          return rules[name] ? line(name) : whole
        })
      if (grown === before) break
    }
    return grown
  }

  /** As people type: now and then in one case only. */
  const spoken = (text) => {
    const chance = random()
    if (chance < 0.12) return text.toLowerCase()
    if (chance < 0.17) return text.toUpperCase()
    return text[0].toUpperCase() + text.slice(1)
  }
  return { expand, pick, spoken }
}
