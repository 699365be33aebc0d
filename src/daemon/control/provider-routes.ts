// The routes with which the operator manages providers.
import type { z } from 'zod'
import { GatewayError, invalidField } from '../../shared/errors.ts'
import { type Clock, isoTime } from '../../shared/time.ts'
import { DoneResponse, StructuredError } from '../../shared/wire/common.ts'
import {
  CreateProviderRequest,
  ListProvidersResponse,
  PROVIDER_PATH,
  PROVIDER_READ_ONLY,
  PROVIDER_SECRETS,
  PROVIDER_TEST_PATH,
  PROVIDERS_PATH,
  type Provider,
  ProviderResponse,
  type ProviderTest,
  ShowProviderResponse,
  TestProviderRequest,
  TestProviderResponse,
  UpdateProviderRequest,
} from '../../shared/wire/providers.ts'
import { ProviderFault, toProviderConfig } from '../config/stored-provider.ts'
import type { StoredProviderRow } from '../platform/db/tables.ts'
import { changesIn } from '../platform/http/read-only.ts'
import { type Route, reply, route } from '../platform/http/route.ts'
import { type MasterKey, SealBrokenError } from '../platform/secrets/seal.ts'
import { type Activity, type ChangeDeps, change } from '../records/audit/change.ts'
import type { Configuration } from './configuration.ts'
import {
  deleteProvider,
  getProvider,
  insertProvider,
  noProvider,
  openSettings,
  type ProviderSettings,
  sealSettings,
  updateProvider,
} from './provider-store.ts'
import { ofFile, ofStore } from './provider-view.ts'

/** Calls one model of a provider. Without `model`, chooses one. */
export type TestProvider = (name: string, model: string | undefined, signal: AbortSignal) => Promise<ProviderTest>

export type ProviderDeps = ChangeDeps & {
  clock: Clock
  masterKey: MasterKey
  configuration: Configuration
  testProvider: TestProvider
}

const NOT_FOUND = { description: 'There is no provider with this name', schema: StructuredError }
const IN_FILE = { description: 'The configuration of this daemon defines the provider', schema: StructuredError }

/** Returns the routes that list, add, change, test and remove providers. No answer contains a secret. */
export function providerRoutes({ masterKey, configuration, testProvider, ...deps }: ProviderDeps): Route[] {
  const { clock } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'operator',
    errors: 'structured',
    tags: ['Providers'],
  }
  const isOwn = (name: string) => configuration.own().providers.some((provider) => provider.name === name)
  const stored = () => configuration.stored().map((one) => ofStore(one, isOwn(one.row.name)))
  const all = (): Provider[] => [...configuration.own().providers.map(ofFile), ...stored()]

  /** The provider in use, or else the unused one of the store. @throws PROVIDER_NOT_FOUND */
  async function get(name = ''): Promise<Provider> {
    // Another daemon may have added it just now.
    await configuration.refresh()
    const found = all().find((provider) => provider.name === name)
    if (found) return found
    throw noProvider(name)
  }

  /** @throws PROVIDER_IN_FILE */
  function requireNotOwn(name: string): void {
    if (!isOwn(name)) return
    throw new GatewayError(
      'PROVIDER_IN_FILE',
      `The configuration of this daemon defines the provider "${name}": its file, or an environment variable. Change it there and reload, or use another name.`,
      { details: { field: 'name', value: name } },
    )
  }

  return [
    route({
      ...common,
      method: 'GET',
      path: PROVIDERS_PATH,
      summary: 'List the providers of the configuration file and of the store',
      responses: { 200: { description: 'All providers, without their secrets', schema: ListProvidersResponse } },
      async handle() {
        await configuration.refresh()
        return reply(200, { success: true, providers: all() } satisfies z.input<typeof ListProvidersResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: PROVIDERS_PATH,
      summary: 'Add a provider; it applies here at once, and on every daemon of the store within two seconds',
      body: CreateProviderRequest,
      responses: {
        201: { description: 'The provider', schema: ProviderResponse },
        409: { description: 'The name is taken, or the configuration defines it', schema: StructuredError },
      },
      async handle(context) {
        const { name, ...body } = context.body
        const settings = withoutNull(body)
        requireUsable(name, settings)
        requireNotOwn(name)
        const now = isoTime(clock.now())
        await change(deps, context, async ({ tx, record }) => {
          const sealed = sealSettings(masterKey, name, settings)
          await insertProvider(tx, { name, sealed, created_at: now, updated_at: now })
          await record(activityOn(name, 'create', settings))
        })
        const provider = await get(name)
        const message = 'Provider added'
        return reply(201, { success: true, message, provider } satisfies z.input<typeof ProviderResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: PROVIDER_PATH,
      summary: 'Show a provider',
      responses: {
        200: { description: 'The provider, without its secrets', schema: ShowProviderResponse },
        404: NOT_FOUND,
      },
      async handle({ params }) {
        const provider = await get(params.name)
        return reply(200, { success: true, provider } satisfies z.input<typeof ShowProviderResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: PROVIDER_PATH,
      summary: 'Change a provider; requests that are running keep the earlier settings',
      body: UpdateProviderRequest,
      responses: {
        200: { description: 'The provider', schema: ProviderResponse },
        404: NOT_FOUND,
        409: IN_FILE,
      },
      async handle(context) {
        const shown = await get(context.params.name)
        const { name } = shown
        requireNotOwn(name)
        const changes = changesIn(context.body, PROVIDER_READ_ONLY, shown)
        await change(deps, context, async ({ tx, record }) => {
          const row = await getProvider(tx, name)
          const before = settingsIn(masterKey, row)
          requireSecretsForNewAddress(before, changes)
          const settings = withoutNull({ ...before, ...defined(changes) })
          requireUsable(name, settings)
          const sealed = sealSettings(masterKey, name, settings)
          await updateProvider(tx, { name, sealed, updated_at: isoTime(clock.now()) })
          await record(activityOn(name, 'update', defined(changes)))
        })
        const provider = await get(name)
        const message = 'Provider updated'
        return reply(200, { success: true, message, provider } satisfies z.input<typeof ProviderResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: PROVIDER_PATH,
      summary: 'Remove a provider; requests that are running still finish',
      responses: {
        200: { description: 'The provider was removed', schema: DoneResponse },
        404: NOT_FOUND,
        409: IN_FILE,
      },
      async handle(context) {
        const { name = '' } = context.params
        await configuration.refresh()
        // A provider of the store that the file hides can be removed.
        if (!configuration.stored().some(({ row }) => row.name === name)) requireNotOwn(name)
        await change(deps, context, async ({ tx, record }) => {
          await getProvider(tx, name)
          await deleteProvider(tx, name)
          await record(activityOn(name, 'delete'))
        })
        await configuration.refresh()
        return reply(200, { success: true, message: 'Provider removed' } satisfies z.input<typeof DoneResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: PROVIDER_TEST_PATH,
      summary: 'Make one small call to a model of the provider. The provider may bill it',
      body: TestProviderRequest,
      responses: {
        200: { description: 'Whether the model answered, and how fast', schema: TestProviderResponse },
        404: NOT_FOUND,
      },
      async handle({ params, body, signal }) {
        const provider = await get(params.name)
        if (!provider.inUse)
          throw invalidField('name', `The provider "${provider.name}" is not in use. ${provider.problem}`)
        const test = await testProvider(provider.name, body.model, signal)
        return reply(200, { success: true, test } satisfies z.input<typeof TestProviderResponse>)
      },
    }),
  ]
}

/** @throws VALIDATION_ERROR */
function requireUsable(name: string, settings: ProviderSettings): void {
  try {
    toProviderConfig(name, settings)
  } catch (error) {
    if (error instanceof ProviderFault) throw invalidField(error.path, `${error.path}: ${error.message}`)
    throw error
  }
}

/** Settings that can no longer be decrypted are replaced as a whole. */
function settingsIn(masterKey: MasterKey, row: StoredProviderRow): ProviderSettings {
  try {
    return openSettings(masterKey, row)
  } catch (error) {
    if (error instanceof SealBrokenError) return {}
    throw error
  }
}

/** The settings that decide where calls are sent. */
const ADDRESS = ['kind', 'base_url', 'proxy'] as const

/**
 * A new address must not receive the earlier secrets: a stolen operator key could otherwise send them anywhere.
 * @throws VALIDATION_ERROR
 */
function requireSecretsForNewAddress(before: ProviderSettings, changes: Partial<UpdateProviderRequest>): void {
  const moved = ADDRESS.find((member) => changes[member] !== undefined && changes[member] !== (before[member] ?? null))
  if (moved === undefined) return
  const kept = PROVIDER_SECRETS.find((member) => before[member] !== undefined && changes[member] === undefined)
  if (kept === undefined) return
  throw invalidField(
    kept,
    `${moved} changes, so send ${kept} again, or null to remove it. Stored secrets are not sent to another address.`,
  )
}

const defined = <T extends object>(members: T): Partial<T> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>

const withoutNull = (members: object): ProviderSettings =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null))

/** The entry names the changed members only, because their values may be secret. */
const activityOn = (name: string, operation: 'create' | 'update' | 'delete', members: object = {}): Activity => ({
  type: 'configuration_management',
  operation,
  resourceType: 'provider',
  resourceId: name,
  description: `${operation}d provider "${name}"`,
  ...(operation !== 'delete' && { metadata: { members: Object.keys(members).sort() } }),
})
