import { describe, expect, test } from 'vitest'
import { resolveSettings, type SettingsInput, toBaseUrl } from '../../../src/cli/profile/profile.ts'

const resolve = (input: Partial<SettingsInput>, mayBeNew = false) =>
  resolveSettings({ flags: {}, env: {}, user: {}, system: {}, credentials: {}, ...input }, { mayBeNew })

const work = { current_profile: 'work', profiles: { work: { base_url: 'https://ai.example.com' } } }
const credentials = { work: { origin: 'https://ai.example.com', key: 'sk-work' } }

describe('settings', () => {
  test('without anything, the gateway of this machine is asked and no key is known', () => {
    const settings = resolve({})
    expect(settings).toMatchObject({ profile: 'default', baseUrl: 'http://127.0.0.1:8787', retries: 2, headers: true })
    expect(settings.key).toEqual({ kind: 'none' })
  })

  test('flag beats environment beats user configuration beats system configuration', () => {
    const system = { output: 'yaml' }
    const user = { output: 'tsv' }
    const env = { AIGW_OUTPUT: 'ndjson' }
    expect(resolve({ system }).format).toBe('yaml')
    expect(resolve({ system, user }).format).toBe('tsv')
    expect(resolve({ system, user, env }).format).toBe('ndjson')
    expect(resolve({ system, user, env, flags: { json: true } }).format).toBe('json')
    expect(resolve({ env: { AIGW_OUTPUT: '' }, user }).format).toBe('tsv')
  })

  test('a profile of the user adds to the one of the system', () => {
    const system = { profiles: { work: { base_url: 'https://old.example.com', chat: { model: 'a/b', index: 'all' } } } }
    const user = {
      current_profile: 'work',
      profiles: { work: { base_url: 'https://new.example.com', chat: { index: 'mine' } } },
    }
    expect(resolve({ system, user })).toMatchObject({
      baseUrl: 'https://new.example.com',
      chat: { model: 'a/b', index: 'mine' },
    })
  })

  test('a stored key goes to the gateway it was stored for and to no other', () => {
    expect(resolve({ user: work, credentials }).key).toEqual({ kind: 'value', value: 'sk-work', from: 'profile' })
    for (const elsewhere of [
      resolve({ user: work, credentials, flags: { baseUrl: 'https://evil.example.com' } }),
      resolve({ user: work, credentials, env: { AIGW_BASE_URL: 'http://ai.example.com' } }),
      resolve({ user: { ...work, profiles: { work: { base_url: 'https://ai.example.com:8443' } } }, credentials }),
    ]) {
      expect(elsewhere.key).toMatchObject({
        kind: 'none',
        why: expect.stringContaining('belongs to https://ai.example.com'),
      })
    }
  })

  test('a key command runs only for the address of its own profile', () => {
    const user = {
      current_profile: 'work',
      profiles: { work: { base_url: 'https://ai.example.com', key_command: 'pass aigw' } },
    }
    expect(resolve({ user }).key).toEqual({ kind: 'command', command: 'pass aigw' })
    expect(resolve({ user, flags: { baseUrl: 'https://evil.example.com' } }).key.kind).toBe('none')
  })

  test('a key that is given for this run beats what is stored: file flag, then AIGW_API_KEY, then AIGW_API_KEY_FILE', () => {
    const env = { AIGW_API_KEY: 'sk-env', AIGW_API_KEY_FILE: '/run/key' }
    expect(resolve({ user: work, credentials, env, flags: { apiKeyFile: '-' } }).key).toEqual({
      ...{ kind: 'file', path: '-', from: '--api-key-file', overrides: true },
    })
    expect(resolve({ user: work, credentials, env }).key).toEqual({
      ...{ kind: 'value', value: 'sk-env', from: 'AIGW_API_KEY', overrides: true },
    })
    expect(resolve({ user: work, credentials, env: { AIGW_API_KEY_FILE: '/run/key' } }).key).toEqual({
      ...{ kind: 'file', path: '/run/key', from: 'AIGW_API_KEY_FILE', overrides: true },
    })
  })

  test('a profile that does not exist is refused with the names there are, unless it is being made', () => {
    expect(() => resolve({ user: work, flags: { profile: 'wrok' } })).toThrow("there is no profile 'wrok'")
    expect(resolve({ user: work, flags: { profile: 'new' } }, true).profile).toBe('new')
  })

  test.each([
    [{ output: 'jsn' }, "'jsn' is not an output format"],
    [{ retries: 'many' }, '--retries'],
    [{ retries: '-1' }, '--retries'],
    [{ timeout: '10' }, '--timeout must be a duration'],
    [{ timeout: '0s' }, '--timeout'],
    [{ json: true, output: 'yaml' }, 'contradict'],
    [{ baseUrl: 'ftp://x' }, '--base-url is not an address'],
  ])('%j is refused', (flags, message) => {
    expect(() => resolve({ flags })).toThrow(message)
  })

  test('an address loses its slash and the API path, and may hold no credentials', () => {
    expect(toBaseUrl('https://ai.example.com/gw/api/external/', 'x')).toBe('https://ai.example.com/gw')
    expect(toBaseUrl('http://[::1]:8787/', 'x')).toBe('http://[::1]:8787')
    expect(() => toBaseUrl('https://user:pass@ai.example.com', 'x')).toThrow('may contain only')
  })
})
