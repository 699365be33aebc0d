/** Completion scripts for shells. */

export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const
export type Shell = (typeof SHELLS)[number]

export type CompletionNode = {
  /** The words of the command, such as `['indexes', 'add']` or `['index', 'add']`. Empty for the root. */
  path: string[]
  /** The verbs that may follow. The script recognises their aliases but does not suggest them. */
  verbs: { word: string; aliases: string[]; text: string }[]
  /** The choices of the command's arguments. */
  values: string[]
  /** What the command's argument names. The script asks the gateway for these names. */
  names: NameKind | undefined
  flags: {
    word: string
    short: string | undefined
    text: string
    takesValue: boolean
    values: string[]
    names: NameKind | undefined
  }[]
}

export type NameKind = 'models' | 'indexes' | 'groups' | 'policies' | 'profiles'

/** The commands that print the names. A slow or missing gateway must not block the shell. */
const QUICKLY = '--timeout 2s --retries 0 --no-input -q 2>/dev/null'
const NAME_COMMANDS: Record<NameKind, string> = {
  models: `aigw models list -o id ${QUICKLY}`,
  indexes: `aigw indexes list --all --field name ${QUICKLY}`,
  groups: `aigw groups list --all --field name ${QUICKLY}`,
  policies: `aigw policies list -o id ${QUICKLY}`,
  profiles: `aigw profiles list --field name ${QUICKLY}`,
}

/**
 * Returns a script that completes commands, flags and the choices of flags. For bash, zsh and fish, it also completes
 * names of the gateway. All other words are completed as file names.
 */
export function toScript(shell: Shell, nodes: CompletionNode[]): string {
  switch (shell) {
    case 'bash':
      return toBash(nodes)
    case 'zsh':
      // zsh can run bash's completion functions, so both shells share one script.
      return `#compdef aigw\nautoload -U +X bashcompinit && bashcompinit\n${toBash(nodes)}`
    case 'fish':
      return toFish(nodes)
    case 'powershell':
      return toPowershell(nodes)
  }
}

const wordsAt = ({ verbs, values }: CompletionNode): string[] => [...verbs.map(({ word }) => word), ...values]
const singleQuoted = (text: string, escapedQuote: string): string => `'${text.replaceAll("'", () => escapedQuote)}'`

const spellings = ({ word, short }: CompletionNode['flags'][number]): string[] =>
  short === undefined ? [word] : [short, word]

/** Lists every flag that has choices. Each flag appears once, with all its spellings. */
function choicesIn(nodes: CompletionNode[]): [string[], string[]][] {
  const flags = nodes.flatMap((node) => node.flags.filter(({ values }) => values.length > 0))
  return [...new Map(flags.map((flag) => [flag.word, flag])).values()].map((flag) => [spellings(flag), flag.values])
}

/** Lists the flags of each command whose values are names of the gateway. */
const namesOfFlags = (nodes: CompletionNode[]): [path: string, words: string[], names: NameKind][] =>
  nodes.flatMap((node) =>
    node.flags.flatMap((flag) =>
      flag.names === undefined || flag.names === 'profiles'
        ? []
        : [[node.path.join(' '), spellings(flag), flag.names] as [string, string[], NameKind]],
    ),
  )

function toBash(nodes: CompletionNode[]): string {
  const places = nodes.map(
    (node) =>
      `    '${node.path.join(' ')}') words='${wordsAt(node).join(' ')}' flags='${node.flags.map(({ word }) => word).join(' ')}' ;;`,
  )
  const paths = nodes.filter(({ path }) => path.length > 0).map(({ path }) => `'${path.join(' ')}'`)
  const choiceCases = choicesIn(nodes).map(
    ([words, values]) =>
      `    ${words.join('|')}) COMPREPLY=($(compgen -W '${values.join(' ')}' -- "$word")); return ;;`,
  )
  const valued = [
    ...new Set(nodes.flatMap(({ flags }) => flags.filter(({ takesValue }) => takesValue).flatMap(spellings))),
  ]
  const flagCases = namesOfFlags(nodes).map(
    ([path, words, names]) =>
      `    ${words.map((word) => `'${path} ${word}'`).join('|')}) _aigw_names ${names} "$word"; return ;;`,
  )
  const nameCases = nodes
    .filter(({ names }) => names !== undefined)
    .map(({ path, names }) => `    '${path.join(' ')}') _aigw_names ${names} "$word" ;;`)
  // compgen -W would run commands inside of names, so the names are compared one by one.
  return `_aigw_names() {
  local name
  while IFS= read -r name; do
    [[ $name == "$2"* ]] && name="$(printf '%q' "$name")" && COMPREPLY+=("\${name#"$replaced"}")
  done < <(case "$1" in
${Object.entries(NAME_COMMANDS)
  .map(([names, command]) => `    ${names}) ${command} ;;`)
  .join('\n')}
  esac)
}
_aigw() {
  local word='' previous='' part='' replaced='' last=-1
  local place='' next='' at words='' flags=''
  local -a given
  given=()
  COMPREPLY=()
  # bash splits words at a colon, such as those of a model like llama3:8b.
  for ((at = 0; at <= COMP_CWORD; at++)); do
    part="\${COMP_WORDS[at]}"
    if [[ $last -gt 0 && -n $part && ( $part == :* || $word == *: ) && $COMP_LINE == *"$word$part"* ]]; then
      word="$word$part"
      given[last]="$word"
    else
      previous="$word" word="$part" last=$((last + 1))
      given[last]="$word"
    fi
  done
  # bash keeps what is before the last colon, so the offered words omit it.
  [[ $word != "\${COMP_WORDS[COMP_CWORD]}" ]] && replaced="\${word%"\${word##*:}"}"
  for ((at = 1; at < last; at++)); do
    next="\${place:+$place }\${given[at]}"
    case "$next" in
      ${paths.join('|')}) place="$next" ;;
    esac
  done
  case "$place $previous" in
${flagCases.join('\n')}
  esac
  case "$previous" in
    -P|--profile) _aigw_names profiles "$word"; return ;;
${choiceCases.join('\n')}
    ${valued.join('|')}) return ;;
  esac
  case "$place" in
${places.join('\n')}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
  case "$word" in -*) return ;; esac
  case "$place" in
${nameCases.join('\n')}
  esac
}
complete -o default -F _aigw aigw
`
}

function toFish(nodes: CompletionNode[]): string {
  const quoted = (text: string) => singleQuoted(text.replaceAll('\\', '\\\\'), "\\'")
  const conditionOf = ({ path, verbs }: CompletionNode): string => {
    if (path.length === 0) return '__fish_use_subcommand'
    const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`)
    const chosen = verbs.flatMap(({ word, aliases }) => [word, ...aliases])
    // fish ignores the order of words. Without this condition, the completions of `groups rm` would also appear after
    // `groups members rm`.
    const siblingGroups = nodes
      .filter((node) => node.verbs.length > 0 && node.path.length === path.length && path.length > 1)
      .filter((node) => node.path[0] === path[0] && node.path[1] !== path[1])
      .flatMap((node) => node.path[1] ?? [])
    const others = [...chosen, ...siblingGroups]
    if (others.length > 0) seen.push(`not __fish_seen_subcommand_from ${others.join(' ')}`)
    return seen.join('; and ')
  }
  const lines = nodes.flatMap((node) => {
    const start = `complete -c aigw -n ${quoted(conditionOf(node))}`
    return [
      ...node.verbs.map(({ word, text }) => `${start} -f -a ${word} -d ${quoted(text)}`),
      ...node.values.map((value) => `${start} -f -a ${value}`),
      ...(node.names === undefined ? [] : [`${start} -f -a ${quoted(`(${NAME_COMMANDS[node.names]})`)}`]),
      ...node.flags.map(({ word, short, text, takesValue, values, names }) => {
        const offered = names === undefined ? values.join(' ') : `(${NAME_COMMANDS[names]})`
        const choices = offered === '' ? '' : ` -f -a ${quoted(offered)}`
        const letter = short === undefined ? '' : ` -s ${short.slice(1)}`
        return `${start}${letter} -l ${word.replace(/^--/, '')}${takesValue ? ' -r' : ''}${choices} -d ${quoted(text)}`
      }),
    ]
  })
  return `${lines.join('\n')}\n`
}

function toPowershell(nodes: CompletionNode[]): string {
  const quoted = (text: string) => singleQuoted(text, "''")
  const places = nodes.map((node) => {
    const words = [...wordsAt(node), ...node.flags.map(({ word }) => word)].map(quoted)
    return `    ${quoted(node.path.join(' '))} = @(${words.join(', ')})`
  })
  const choices = choicesIn(nodes).flatMap(([words, values]) =>
    words.map((word) => `    ${quoted(word)} = @(${values.map(quoted).join(', ')})`),
  )
  return `Register-ArgumentCompleter -Native -CommandName aigw -ScriptBlock {
  param($word, $line, $position)
  $places = @{
${places.join('\n')}
  }
  $choices = @{
${choices.join('\n')}
  }
  $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  $place = ''
  foreach ($element in $words) {
    $next = "$place $element".Trim()
    if ($places.ContainsKey($next)) { $place = $next }
  }
  $before = if ($word -eq '') { $words | Select-Object -Last 1 } else { $words | Select-Object -Last 2 | Select-Object -First 1 }
  $offered = if ($before -and $choices.ContainsKey($before)) { $choices[$before] } else { $places[$place] }
  $offered | Where-Object { $_ -like "$word*" } | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`
}
