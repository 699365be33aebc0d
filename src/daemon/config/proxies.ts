import { parseUrl } from '../../shared/url.ts'
import type { ProxySettings } from '../models/proxy.ts'
import type { ConfigSources } from './sources.ts'
import { ValueFault } from './values.ts'

const HOW = 'write http://HOST:PORT, or none'

/**
 * Parses the URL of a proxy, or `none`, which returns null. Like other programs, it assumes http if the scheme is
 * missing. Throws ValueFault, which does not contain the URL, because the URL may contain a password.
 */
export function parseProxy(text: string): string | null {
  if (text === 'none') return null
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`
  const url = parseUrl(full)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw new ValueFault(`is not the http or https URL of a proxy; ${HOW}`)
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw new ValueFault(`contains a path, query or fragment; ${HOW}`)
  if ([url.username, url.password].some((part) => !isEncoded(part)))
    throw new ValueFault('contains an invalid user or password; percent-encode special characters')
  return url.href
}

/**
 * The proxies of the environment, if any. As in other programs, the lower-case name of a variable has the higher precedence.
 */
export function proxiesOfEnvironment(env: ConfigSources['env']): {
  proxies: ProxySettings | undefined
  faults: string[]
} {
  const faults: string[] = []
  const proxyOf = (name: string) => {
    const variable = [name.toLowerCase(), name].find((one) => env[one])
    if (variable === undefined) return undefined
    try {
      return parseProxy(env[variable] ?? '') ?? undefined
    } catch (error) {
      if (!(error instanceof ValueFault)) throw error
      faults.push(`${variable}: ${error.message}`)
      return undefined
    }
  }
  const [http, https] = [proxyOf('HTTP_PROXY'), proxyOf('HTTPS_PROXY')]
  const except = (env.no_proxy || env.NO_PROXY || '').split(/[,\s]+/).filter((entry) => entry !== '')
  return { proxies: http || https ? { http, https, except } : undefined, faults }
}

function isEncoded(part: string): boolean {
  try {
    decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}
