/** Chooses the model of a chat for which neither the command line nor the configuration names one. */
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import type { ChatDefaults } from '../../profile/config-files.ts'
import { fetchModels } from '../models/commands.ts'
import type { ChatInput } from './input.ts'

const SHOWN = 5

/** The built-in provider needs no configuration, so a model of another provider is preferred. */
const BUILT_IN = 'local'

/**
 * Returns the defaults of the profile. If no model is named, adds the only model that this key may use. Throws a usage
 * error if there are several.
 */
export async function withDefaultModel(
  context: CliContext,
  { models, chain }: Pick<ChatInput, 'models' | 'chain'>,
  defaults: ChatDefaults,
): Promise<ChatDefaults> {
  if (models.length > 0 || chain !== undefined || defaults.model !== undefined) return defaults
  const { models: usable } = await fetchModels(context)
  // `NAME/*` stands for any model of a provider, so it names none.
  const named = usable.filter(({ id }) => !id.endsWith('/*'))
  const others = named.filter(({ provider }) => provider !== BUILT_IN)
  const hasWildcard = usable.some(({ id, provider }) => id.endsWith('/*') && provider !== BUILT_IN)
  const [only, ...more] = others.length > 0 || hasWildcard ? others : named
  if (only !== undefined && more.length === 0 && !hasWildcard) {
    await context.note(`note: using ${only.id}, the only model to choose from; another one: -m PROVIDER/MODEL`)
    return { ...defaults, model: only.id }
  }
  const names = usable.slice(0, SHOWN).map(({ id }) => id)
  const rest = usable.length > SHOWN ? `, and ${usable.length - SHOWN} more (aigw models list)` : ''
  throw usageError('no model given', [
    ...(names.length === 0 ? ['This key may use no model.'] : [`This key may use:  ${names.join(', ')}${rest}`]),
    'Name one:          -m PROVIDER/MODEL',
    'Or set a default:  aigw config set chat.model PROVIDER/MODEL',
  ])
}
